# Dagster sensor of assetlog 0.4.0: assetlog dagster > assetlog_sensor.py
# Each event of GET /events becomes a runless event of Dagster (1.11 or newer).
import ipaddress
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional, Set, Tuple
import dagster as dg
try:
    from dagster._core.definitions.metadata import metadata_value_from_external as of_type  # of Dagster Pipes
except ImportError:  # a later Dagster
    def of_type(value: Any, name: str) -> Any:
        return getattr(dg.MetadataValue, name)(value)

URL = os.environ.get("ASSETLOG_URL", "http://127.0.0.1:3000").rstrip("/")  # with deployments https://hub.example/prod
TOKEN_FILE = os.environ.get("ASSETLOG_TOKEN_FILE")
TOKEN_HEADER = os.environ.get("ASSETLOG_TOKEN_HEADER", "Service-Cloud-Api-Token")
KEY_PREFIX = os.environ.get("ASSETLOG_KEY_PREFIX")  # only these assets: warehouse, or ["warehouse", "a/b"]
TICK_SECONDS = int(os.environ.get("ASSETLOG_TICK_SECONDS", "10"))
TICK_EVENTS = int(os.environ.get("ASSETLOG_TICK_EVENTS", "1000"))  # at most; a kill can double them
LOCAL = r"(.+\.)?localhost\.?|127(\.[0-9]+){3}|0\.0\.0\.0|::1?|::ffff:127(\.[0-9]+){3}"
UPDATED = "dagster/last_updated_timestamp"  # of Dagster's freshness checks
NUMBERS: Dict[str, Any] = {"parse_int": lambda text: int(text) if len(text) < 20 else text,
           "parse_float": lambda text: text if "inf" in str(float(text)) else float(text)}
Mark = List[Any]  # seq and id
Found = Tuple[Optional[Mark], Any]  # and the event of Dagster
last_cursor: Any = object()  # of a tick with events: if it comes again, Dagster has not stored the next one

class Removed(Exception):
    """Retention removed events; the argument is the first seq that is left."""

class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None  # no other service gets the token

def is_excepted(host: str) -> bool:
    """Whether no_proxy has a network of the address, such as 10.0.0.0/8. urllib reads only its names."""
    for text in re.split(r"[\s,]+", urllib.request.getproxies_environment().get("no", "")):
        try:
            address = ipaddress.ip_address(host)
            if (getattr(address, "ipv4_mapped", None) or address) in ipaddress.ip_network(text, strict=False):
                return True
        except ValueError:  # a name, or no network
            pass
    return False

def read(**query: Any) -> Dict[str, Any]:
    headers: Dict[str, str] = {"Accept": "application/json"}
    token = ""
    if TOKEN_FILE:
        with open(TOKEN_FILE) as file:
            token = headers[TOKEN_HEADER] = file.read().strip()
        if not re.fullmatch("[ -~]+", token):  # an error of urllib would have it
            raise ValueError(f"the token in {TOKEN_FILE} is not one line of ASCII characters")
    request = urllib.request.Request(f"{URL}/events?{urllib.parse.urlencode(query)}", headers=headers)
    host = urllib.parse.urlsplit(URL).hostname or ""
    proxies = [urllib.request.ProxyHandler({})] if re.fullmatch(LOCAL, host) or is_excepted(host) else []
    try:
        with urllib.request.build_opener(NoRedirect, *proxies).open(request, timeout=20) as reply:
            text = reply.read()
        return {"bytes": len(text), **json.loads(text, **NUMBERS)}
    except urllib.error.HTTPError as error:
        text = error.read(10_000).decode(errors="replace")
        if error.code == 410:
            raise Removed(json.loads(text)["first_seq"]) from None
        for secret in (token, json.dumps(token)[1:-1]) if token else ():
            text = text.replace(secret, "***")
        raise RuntimeError(f"{URL}/events answers {error.code}: {text[:1_000]}") from None

def mark_of(seq: int) -> Optional[Mark]:
    for event in read(after_seq=seq - 1, limit=1)["events"]:
        return [event["seq"], event["id"]]
    return None

def find_place(marks: List[Mark]) -> Tuple[List[Mark], str]:
    """Returns the marks (seq and id, the newest first) that the journal still has, and what is wrong."""
    for index, mark in enumerate(marks):
        try:
            if mark != mark_of(mark[0]):
                continue
        except Removed:
            pass  # the next page finds which events are missing
        return marks[index:], f"the journal was replaced: events after {mark[0]} are read again" if index else ""
    return [], "the journal began anew: it is read from its first event" if marks else ""

def thin_out(marks: List[Mark]) -> List[Mark]:
    """Keeps a few marks, at growing distances, for a journal that is restored from a backup."""
    kept = marks[:1]
    for mark, older in zip(marks[1:], [*marks[2:], None]):
        if older is None or marks[0][0] - older[0] >= 2 * (marks[0][0] - kept[-1][0]):
            kept.append(mark)
    return kept

def is_unreadable(value: Any) -> bool:
    """Whether Dagster could not show the history of the asset with it: a name such as "__class__" or "__enum__" is its own, and
    half of a surrogate pair has no bytes."""
    if isinstance(value, dict):
        return any(name.startswith("__") or is_unreadable(name) or is_unreadable(one) for name, one in value.items())
    if isinstance(value, str):
        return re.search("[\ud800-\udfff]", value) is not None
    return isinstance(value, list) and any(map(is_unreadable, value))

def typed(value: Any) -> Any:
    """The sender names a type as in Dagster Pipes: {"type": "md", "raw_value": "# Title"}"""
    if is_unreadable(value):
        return dg.MetadataValue.text(json.dumps(value))
    if isinstance(value, dict) and value.keys() == {"type", "raw_value"}:
        try:
            return of_type(value["raw_value"], value["type"])
        except Exception:
            pass  # it is not of that type
    if isinstance(value, str) and value.startswith(("http://", "https://")) and " " not in value:
        return dg.MetadataValue.url(value)
    return dg.MetadataValue.json(value) if isinstance(value, (dict, list)) else value

def is_time(value: Any) -> bool:
    try:
        return isinstance(value, dg.TimestampMetadataValue) and bool(datetime.fromtimestamp(value.value, timezone.utc))
    except (OverflowError, OSError, ValueError):
        return False

def convert(event: Dict[str, Any]) -> Any:
    happened, recorded = event.get("event_time"), event.get("recorded", event["time"])
    at = happened or recorded
    seconds = datetime.fromisoformat(at[:19] + "+00:00").timestamp() + float("0" + at[19:-1])
    metadata = {json.dumps(name) if is_unreadable({name: None}) else name: typed(value)
                for name, value in event.get("metadata", {}).items()}
    if not is_time(metadata.get(UPDATED)):
        metadata.pop(UPDATED, None)
        if event["type"] == "AssetMaterialization":  # others do not update the asset
            metadata[UPDATED] = dg.MetadataValue.timestamp(seconds)
    metadata.update({"assetlog/id": event["id"], "assetlog/seq": event["seq"], "assetlog/recorded": recorded})
    if happened:
        metadata["assetlog/event_time"] = happened
    if "from" in event:
        metadata["assetlog/device"], metadata["assetlog/device_seq"] = event.get("origin", event["from"])
    about = {"asset_key": dg.AssetKey(event["asset_key"]), "metadata": metadata}
    if "partition" in event:
        about["partition"] = event["partition"]
    if event["type"] == "AssetCheckEvaluation":
        severity = dg.AssetCheckSeverity[event["severity"]]
        return dg.AssetCheckEvaluation(check_name=event["check_name"], passed=event["passed"], severity=severity, **about)
    if "tags" in event:
        about["tags"] = {"dagster/data_version": event["tags"]["data_version"],
                         "dagster/data_version_is_user_provided": "true"}
    return getattr(dg, event["type"])(description=event.get("description"), **about)

def alarm(problem: str) -> Any:
    return dg.AssetCheckEvaluation(asset_key=dg.AssetKey("assetlog"), check_name="is_complete", passed=False,
                                   metadata={"problem": problem, "service": URL})

def report_now(context: Any, found: List[Found], late: float) -> List[Found]:
    """Reports what a tick failed with, except what Dagster refuses. Returns what is done."""
    report = context.instance.report_runless_asset_event
    for index, (mark, event) in enumerate(found):
        if time.monotonic() > late:
            return found[:index]
        try:
            if event:
                report(event)
        except Exception as error:
            problem = f"event {mark and mark[0]} is skipped, since Dagster refuses it: {error!r}"
            try:
                report(alarm(problem))
            except Exception:  # Dagster takes nothing now
                if index == 0:
                    raise
                return found[:index]
            context.log.error(problem)
    return found

@dg.sensor(name="assetlog", minimum_interval_seconds=TICK_SECONDS, default_status=dg.DefaultSensorStatus.RUNNING)
def assetlog_sensor(context: Any) -> Any:
    global last_cursor
    began, size = time.monotonic(), 0
    found: List[Found] = []
    taken: Set[Tuple[Any, str]] = set()

    def is_full() -> bool:  # Dagster ends a tick after 60 s
        return len(found) >= TICK_EVENTS or size > 8_000_000 or time.monotonic() - began > 10

    def is_taken(check: Any, partition: str) -> bool:
        """Dagster stores one runless result of a check for each partition: the next ones go without it."""
        try:
            from dagster._core.event_api import PartitionKeyFilter
            history = context.instance.event_log_storage.get_asset_check_execution_history
            only = PartitionKeyFilter(key=partition)
            if (check, partition) not in taken and not history(check, 1, partition_filter=only):
                taken.add((check, partition))
                return False
        except (AttributeError, ImportError, TypeError):
            pass  # results have a partition since Dagster 1.13
        return True

    def note(mark: Optional[Mark], problem: str) -> None:
        context.log.error(problem)
        found.append((mark, alarm(problem)))

    marks, problem = find_place(json.loads(context.cursor or "[]"))
    seq = marks[0][0] if marks else 0
    if problem:
        note(marks[0] if marks else None, problem)
    filters = {"key_prefix": KEY_PREFIX} if KEY_PREFIX else {}
    while not is_full():
        try:
            page = read(after_seq=seq, limit=min(100, TICK_EVENTS - len(found)), **filters)
        except Removed as removed:
            first = removed.args[0]
            note([first - 1, None], f"events {seq + 1} to {first - 1} were removed before they were read")
            seq = first - 1
            continue
        size += page["bytes"]
        for event in page["events"]:
            seq = event["seq"]
            if "check_name" in event and "partition" in event:
                check = dg.AssetCheckKey(dg.AssetKey(event["asset_key"]), event["check_name"])
                if is_taken(check, event["partition"]):
                    event.setdefault("metadata", {})["assetlog/partition"] = event.pop("partition")
            try:
                result = convert(event)
            except Exception as error:
                note([seq, event["id"]], f"event {seq} is skipped, since it cannot be converted: {error!r}")
            else:
                found.append(([seq, event["id"]], result))
        if not page["events"]:
            if page["next_after_seq"] > seq:  # no event up to there passes the filter
                found.append((mark_of(page["next_after_seq"]), None))
            break
    events = [event for _, event in found if event]
    count = len(events)
    if events and context.cursor == last_cursor:
        found, events = report_now(context, found, began + 30), []
    elif events:
        last_cursor = context.cursor
    marks = [mark for mark, _ in found[-1:] if mark] + marks
    place = f"{count} events, up to seq {marks[0][0] if marks else 0}"
    return dg.SensorResult(asset_events=events, cursor=json.dumps(thin_out(marks)), skip_reason=place)

@dg.asset_check(asset="assetlog", name="is_complete", description="Fails if events are missing; a run marks that as seen.")
def assetlog_check() -> Any:
    return dg.AssetCheckResult(passed=True)

defs = dg.Definitions(sensors=[assetlog_sensor], asset_checks=[assetlog_check])
