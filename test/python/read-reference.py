import json, re, sys
from decimal import Decimal
from pathlib import Path
from dagster import DagsterInstance, deserialize_value
from dagster._core.definitions.data_version import DATA_VERSION_IS_USER_PROVIDED_TAG, DATA_VERSION_TAG
from dagster._core.events import DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from sqlalchemy import select

TYPES = {
    DagsterEventType.ASSET_MATERIALIZATION: 'AssetMaterialization',
    DagsterEventType.ASSET_OBSERVATION: 'AssetObservation',
    DagsterEventType.ASSET_CHECK_EVALUATION: 'AssetCheckEvaluation',
}

def json_text(value):
    # Python reads numbers that JSON does not allow.
    return re.sub('\\bInfinity\\b', '"Infinity"', json.dumps(value, sort_keys=True, default=repr))

def show(side, raw, members):
    marker = re.search('row[0-9]{3}', raw)
    texts = {name: json_text(value) for name, value in members.items()}
    print(json.dumps({'side': side, 'marker': marker and marker.group(), 'members': texts}))

def members_of_reference(event, metadata):
    data = event.event_specific_data
    report = getattr(data, 'materialization', None) or getattr(data, 'asset_observation', None) or data
    tags = dict(getattr(report, 'tags', None) or {})
    version = tags.pop(DATA_VERSION_TAG, None)
    assert tags == ({} if version is None else {DATA_VERSION_IS_USER_PROVIDED_TAG: 'true'}), tags
    severity = getattr(report, 'severity', None)
    return {
        'type': TYPES[event.event_type],
        'asset_key': list(report.asset_key.path),
        'partition': report.partition,
        'description': report.description,
        'data_version': version,
        'check_name': getattr(report, 'check_name', None),
        'passed': getattr(report, 'passed', None),
        'severity': severity and severity.value,
        'metadata': {name: value.value for name, value in report.metadata.items()} if metadata is None else metadata,
        # The reference has no such parameter: it ignores the name as unknown.
        'event_time': None,
    }

def read_reference(raw):
    try:
        return members_of_reference(deserialize_value(raw, EventLogEntry).dagster_event, None)
    except Exception as error:
        # The stored event cannot be loaded: the rest of it is read without its metadata.
        entry = json.loads(raw)
        entry['dagster_event']['event_specific_data']['materialization']['metadata_entries'] = []
        event = deserialize_value(json.dumps(entry), EventLogEntry).dagster_event
        return members_of_reference(event, f'cannot be loaded: {error!r}')

def number(text):
    value = float(text)
    return value if Decimal(text) == Decimal(repr(value)) else f'{text} exactly'

def read_line(line):
    event = json.loads(line, parse_float=number)
    members = {name: event.get(name) for name in ('type', 'asset_key', 'partition', 'description')}
    members['data_version'] = event.get('tags', {}).get('data_version')
    members.update({name: event.get(name) for name in ('check_name', 'passed', 'severity')})
    # The reference does not distinguish missing metadata from metadata without members.
    members['metadata'] = event.get('metadata', {})
    members['event_time'] = event.get('event_time')
    return members

with DagsterInstance.get() as instance, instance.event_log_storage.index_connection() as connection:
    table = SqlEventLogStorageTable.c
    for (raw,) in connection.execute(select(table.event).order_by(table.id)):
        show('reference', raw, read_reference(raw))
for file in sorted(Path(sys.argv[1]).glob('events-*.jsonl')):
    for line in file.read_text(encoding='utf-8').splitlines():
        show('assetlog', line, read_line(line))
