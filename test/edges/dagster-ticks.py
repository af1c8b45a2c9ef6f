"""Evaluates ticks of the sensor in the folder of its argument, like Dagster's daemon: one JSON object a line, in and out."""

import json
import logging
import os
import sys
import warnings

warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])

import assetlog_sensor
import dagster

instance = dagster.DagsterInstance.get() if "DAGSTER_HOME" in os.environ else dagster.DagsterInstance.local_temp()
store = instance.report_runless_asset_event


class Lines(logging.Handler):
    lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def shown(value):
    raw = value.value
    return [type(value).__name__.replace("MetadataValue", ""), raw if isinstance(raw, (str, dict, list)) else repr(raw)]


def event_of(event):
    metadata = {name: shown(value) for name, value in event.metadata.items()}
    names = ("partition", "description", "tags", "check_name", "passed")
    members = {name: getattr(event, name, None) for name in names}
    severity = getattr(event, "severity", None)
    return {**members, "severity": severity and severity.value, "type": type(event).__name__,
            "asset_key": list(event.asset_key.path), "metadata": metadata}


def tick(cursor, refuse=(), settings=None):
    """`refuse` has the seqs that Dagster does not store; -1 is every event."""
    for name, value in (settings or {}).items():
        setattr(assetlog_sensor, name, value)
    stored = []

    def report(event):
        seq = event.metadata.get("assetlog/seq")
        if -1 in refuse or (seq and seq.value in refuse):
            raise RuntimeError("this event cannot be stored")
        store(event)
        stored.append(event_of(dagster.deserialize_value(dagster.serialize_value(event))))

    instance.report_runless_asset_event = report
    context = dagster.build_sensor_context(instance=instance, cursor=cursor)
    handler, Lines.lines = Lines(), []
    context.log.addHandler(handler)
    reply = {"cursor": cursor, "stored": stored, "lines": Lines.lines}
    try:
        result = assetlog_sensor.assetlog_sensor(context)
        reply["given"] = len(result.asset_events)
        for event in result.asset_events:
            report(event)
        return {**reply, "cursor": result.cursor, "message": result.skip_reason.skip_message}
    except Exception as error:
        return {**reply, "error": str(error)}


def reference(values):
    """What Dagster makes of the same metadata: of a type as in Dagster Pipes, and without one as its endpoint."""
    from dagster._core.definitions.metadata import metadata_value_from_external
    found = {}
    for name, value in values.items():
        try:
            if isinstance(value, dict) and "type" in value:
                value = metadata_value_from_external(value["raw_value"], value["type"])
            found[name] = shown(dagster.AssetObservation("a", metadata={"value": value}).metadata["value"])
        except Exception:
            found[name] = None  # refused
    return {"cursor": None, "metadata": found}


acts = {"tick": tick, "reference": reference}
for line in sys.stdin:
    [(name, arguments)] = json.loads(line).items()
    print(json.dumps(acts[name](**arguments)), flush=True)
