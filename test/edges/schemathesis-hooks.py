"""Rules that the document has only in words, since no schema can express them: how the places of a parameter combine."""

import itertools
import json
import urllib.parse
import uuid
import zlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation

# Lines have no schema that a generator could follow, so each request of lines has this one.
LINE_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
LINES = '{"type": "materialization", "asset_key": "lines"}\n{"type": "observation", "asset_key": "lines"}\n'

KEY = "Idempotency-Key"
READS = ("GET", "HEAD")
REQUIRED = {"asset_key": '["schemathesis"]', "passed": "true", "check_name": "schemathesis"}


@schemathesis.serializer(*LINE_TYPES)
def serialize_lines(context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@schemathesis.hook
def map_case(context, case):
    if case.method.upper() in READS:
        case.query = together(case)
        return case
    if case.operation.path.endswith("/erase"):
        case.query = naming_events(case, together(case))
        return case
    if case.media_type in LINE_TYPES:
        case.body = LINES
    if isinstance(case.body, list):
        return case
    body, query = places(case)
    if "metadata" in query and not is_wrong(case, ParameterLocation.QUERY):
        query = case.query = {**query, "metadata": '{"rows": 10}'}  # no schema can require that a text is JSON
    # The body hides the query, so each parameter stays in one of them: the one with the mistake, if there is a mistake.
    hidden = [name for name in query if name in body]
    if hidden and is_wrong(case, ParameterLocation.QUERY):
        body = case.body = {name: value for name, value in body.items() if name not in hidden}
    elif hidden:
        query = {name: value for name, value in query.items() if name not in hidden}
    # A required parameter that is in no place goes into the query.
    taken = [parameter.name for parameter in case.operation.query]
    missing = {name: value for name, value in REQUIRED.items() if name in taken and name not in body}
    case.query = {**missing, **query}
    return case


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path.endswith("/erase"):
        case.query = naming_events(case, dict(case.query or {}))  # an example has one parameter
    if case.headers and not is_wrong(case, ParameterLocation.HEADER):
        case.headers.pop("Content-Encoding", None)  # the body is not packed
    if is_wrong(case, ParameterLocation.BODY) or is_wrong(case, ParameterLocation.HEADER):
        return
    path = case.path_parameters or {}
    if "source" in path and not is_wrong(case, ParameterLocation.PATH):
        path["source"] = str(uuid.uuid4())  # Schemathesis might have learned it from a reply
        write_headers(case)
        if "first_seq" in path:
            forward_line(case)
    if "source" in path:
        return
    use_new_keys(case)
    if isinstance(case.body, list):
        leave_one_out(case)
    else:
        use_key_again(case)


@schemathesis.hook
def filter_case(context, case):
    wrong_body = is_wrong(case, ParameterLocation.BODY)
    if wrong_body and (case.media_type in LINE_TYPES or any(has_tag_twice(item) for item in items(case))):
        return False
    body, query = places(case)
    if not all(is_key(query.get(name)) for name in ("key", "key_prefix", "key_begins_with", "after_key")):
        return False
    # With mistakes in both places it is unknown which one is hidden.
    both = is_wrong(case, ParameterLocation.QUERY) and is_wrong(case, ParameterLocation.BODY)
    return is_key(query.get("asset_key")) and not (both and any(name in body for name in query))


def together(case):
    """Removes parameters of a reading that exclude each other, which no schema can express. No request waits."""
    query = dict(case.query or {})
    if is_wrong(case, ParameterLocation.QUERY):
        return query
    if "last" in query or "after_seq" not in query:
        query.pop("wait", None)
    if "wait" in query:
        query["wait"] = 0
    of_checks = [(name, ["type"]) for name in ("check", "passed", "severity")]
    for name, others in (("last", ["limit"]), ("since", ["until"]), *of_checks):
        if name in query:
            query = {other: value for other, value in query.items() if other not in others}
    return query


def naming_events(case, query):
    """An erase names events: one parameter besides all is needed."""
    if is_wrong(case, ParameterLocation.QUERY) or any(name != "all" for name in query):
        return query
    return {**query, "id": str(uuid.uuid4())}


def use_new_keys(case):
    """An idempotency key is for one event, and the generators repeat keys."""
    if case.headers and KEY in case.headers:
        case.headers[KEY] = str(uuid.uuid4())
    for item in items(case):
        if isinstance(item, dict) and item.get("idempotency_key"):
            item["idempotency_key"] = str(uuid.uuid4())


def write_headers(case):
    """A name is percent-encoded UTF-8, which no pattern can express. With given tokens, Schemathesis counts wrong names as right."""
    if case.headers and "Assetlog-Name" in case.headers:
        case.headers["Assetlog-Name"] = urllib.parse.quote("Gerät 17")
    if case.headers:
        case.headers.pop("Assetlog-Before", None)  # its lines count up, which no pattern can express


def forward_line(case):
    """A line of a journal that the hub does not know: it has a crc, and a header that declares earlier lines lost."""
    seq = int(case.path_parameters["first_seq"])
    headers = case.headers = {**(case.headers or {})}
    headers.pop("Assetlog-Lost", None)
    if seq > 1:
        headers["Assetlog-Lost"] = f"1-{seq - 1}"
    start = f'{{"seq":{seq},"id":"{uuid.uuid4()}","time":"2026-11-20T15:19:45.266Z","type":"AssetObservation","asset_key":["lines"]'
    crc = zlib.crc32(start.encode(), int(headers.get("Assetlog-Crc", "0"), 16))
    case.body = f'{start},"crc":"{crc:08x}"}}\n'


# Schemathesis warns about a document whose only example is refused.
EXAMPLES = 20
batches = itertools.count(1)
reports = itertools.count(1)
last_key = None


def leave_one_out(case):
    """Every fifth batch has two events with one key, which no schema forbids, and allows to leave one out: a 207."""
    if 0 < len(case.body) < 100 and next(batches) % 5 == 0:
        first = {"type": "observation", "asset_key": "twice", "idempotency_key": str(uuid.uuid4())}
        case.body = [*case.body, first, {**first, "partition": "other"}]
        case.headers = {**(case.headers or {}), "Prefer": "handling=lenient"}


def use_key_again(case):
    """Every eighth report has the key of the previous report: a 422, or a replay if both are the same."""
    global last_key
    if not case.headers or KEY not in case.headers:
        return
    count = next(reports)
    if count > EXAMPLES and count % 8 == 0:
        case.headers[KEY] = last_key
    last_key = case.headers[KEY]


def items(case):
    return case.body if isinstance(case.body, list) else []


def has_tag_twice(item):
    # A tag must have the value of the parameter with its name, which no schema can express.
    return isinstance(item, dict) and "tags" in item and "data_version" in item


def places(case):
    return case.body if isinstance(case.body, dict) else {}, case.query or {}


def is_wrong(case, location):
    component = case.meta.components.get(location)
    return component is not None and component.mode.is_negative


def is_key(text):
    # No schema can express what follows the bracket.
    if not isinstance(text, str) or not text.startswith("["):
        return True
    try:
        parts = json.loads(text)
    except ValueError:
        return False
    return len(parts) > 0 and all(isinstance(part, str) and part.isprintable() and part for part in parts)
