# Relay of assetlog 0.4.0: assetlog relay > assetlog_relay.py
# Passes alarms of a hook on to Slack, ntfy, Alertmanager or a ping URL. For Python 3.8 or newer, standard library only.
import datetime
import http.client
import http.server
import ipaddress
import json
import os
import re
import socket
import socketserver
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, List, Tuple, Union

URL, TOPIC = os.environ.get("ALARM_URL", ""), os.environ.get("ALARM_TOPIC", "")
CONNECTIONS, SECONDS, BODY_BYTES = 16, 20, 4 * 1024 * 1024
LOCAL = r"(.+\.)?localhost\.?|127(\.[0-9]+){3}|0\.0\.0\.0|::1?|::ffff:127(\.[0-9]+){3}"
CONTROLS = "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # they would change how a text is shown
Event = Dict[str, Any]
Message = Tuple[str, Union[str, Event, List[Event]]]

def is_end(event: Event, alarm: Event) -> bool:
    return alarm["on"] in ("recovered", "fresh") or event.get("passed") is True

def asset_of(event: Event) -> str:
    parts: List[str] = event["asset_key"]
    return json.dumps(parts, ensure_ascii=False) if any("/" in part for part in parts) else "/".join(parts)

def describe(event: Event, alarm: Event) -> str:
    before = alarm.get("before", {})
    what = f'{event["deployment"]}: ' if "deployment" in event else ""
    what += asset_of(event)
    if alarm["on"] == "stale":
        return f'{what}: no event since {alarm["since"]}'
    if alarm["on"] == "fresh":
        return f'{what}: no longer silent ({alarm["because"]}), since {before["since"]}'
    what += f': {event["check_name"]}'
    partition = f', {event["partition"]}' if "partition" in event else ""
    if alarm["on"] == "recovered":
        severity = before.get("severity", event.get("severity", "ERROR"))
        return f'{what} no longer fails ({severity}, {alarm["because"]}){partition}, since {before["since"]}'
    return f'{what} {"passes" if is_end(event, alarm) else "failed"} ({event["severity"]}){partition}'

def slack(event: Event, alarm: Event, text: str) -> Message:  # ALARM_URL=https://hooks.slack.com/services/...
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, name)
    return URL, {"text": text, "mrkdwn": False}

def ntfy(event: Event, alarm: Event, text: str) -> Message:  # ALARM_URL=https://ntfy.sh
    return URL, {"topic": TOPIC, "message": text, "priority": 3 if is_end(event, alarm) else 4}

def alertmanager(event: Event, alarm: Event, text: str) -> Message:  # ALARM_URL=http://127.0.0.1:9093/api/v2/alerts
    kind = "AssetlogStale" if alarm["on"] in ("stale", "fresh") else "AssetlogCheck"
    labels = {"alertname": kind, "asset": asset_of(event)}
    for label, name in (("deployment", "deployment"), ("check", "check_name"), ("partition", "partition")):
        if name in event:
            labels[label] = event[name]
    now = datetime.datetime.now(datetime.timezone.utc)
    starts, ends = alarm.get("before", alarm).get("since", event.get("time", now.isoformat())), "2100-01-01T00:00:00Z"
    if is_end(event, alarm):  # Alertmanager ignores an end that is ahead of its own clock: the alert would last
        starts = ends = (now - datetime.timedelta(minutes=1)).isoformat()
    return URL, [{"labels": labels, "annotations": {"summary": text}, "startsAt": starts, "endsAt": ends}]

def ping(event: Event, alarm: Event, text: str) -> Message:  # ALARM_URL=https://hc-ping.com/UUID, one for each check
    return URL + ("" if is_end(event, alarm) else "/fail"), text

FORMS: Dict[str, Callable[[Event, Event, str], Message]] = {
    "slack": slack, "ntfy": ntfy, "alertmanager": alertmanager, "ping": ping}

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

class AnyStatus(urllib.request.HTTPErrorProcessor):
    """Follows no redirect: another address would get the alarm, or none."""
    def http_response(self, request: Any, response: Any) -> Any:
        return response
    https_response = http_response

class Connections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Keeps the connection of a request, which a thread can end."""
    made: Any = None

    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:
        def make(*args: Any, **options: Any) -> Any:
            self.made = http_class(*args, **options)
            return self.made
        return super().do_open(make, req, **http_conn_args)

def cut(sock: Any) -> None:
    try:
        if sock:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # also below TLS
    except OSError:  # it has ended
        pass

class Relay(http.server.BaseHTTPRequestHandler):
    timeout = SECONDS

    def handle(self) -> None:
        self.connections, is_done = Connections(), threading.Event()

        def watch() -> None:
            is_late = not is_done.wait(SECONDS)
            while is_late and not is_done.wait(0.1):  # again, for a connection that is made meanwhile
                cut(getattr(self.connections.made, "sock", None))
                cut(self.connection)

        threading.Thread(target=watch, daemon=True).start()
        try:
            super().handle()
        except OSError as error:  # the sender of the event is gone
            self.log_error("%s", error)
        finally:
            is_done.set()

    def do_POST(self) -> None:
        self.send_response(403 if self.headers.get("Origin") is not None else self.pass_on())
        self.end_headers()

    def pass_on(self) -> int:
        try:
            length = self.headers.get("Content-Length", "")
            if not re.fullmatch("[0-9]{1,9}", length) or int(length) > BODY_BYTES:
                return 400
            event = json.loads(self.rfile.read(int(length)))
            alarm = event.get("alarm", {"on": "failed"})
            if alarm["on"] not in ("failed", "recovered", "stale", "fresh"):
                return 400
            text = re.sub(CONTROLS, "\ufffd", describe(event, alarm))
            url, body = FORMS[os.environ["ALARM_FORM"]](event, alarm, text)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            return 400  # no alarm of assetlog
        is_text = isinstance(body, str)
        data = (str(body) if is_text else json.dumps(body)).encode(errors="replace")
        kind = "text/plain; charset=utf-8" if is_text else "application/json"
        host = urllib.parse.urlsplit(url).hostname or ""
        proxies = [urllib.request.ProxyHandler({})] if re.fullmatch(LOCAL, host) or is_excepted(host) else []
        opener = urllib.request.build_opener(AnyStatus, self.connections, *proxies)
        try:
            with opener.open(urllib.request.Request(url, data, {"Content-Type": kind}), timeout=SECONDS / 2) as reply:
                status = int(reply.status)
        except (OSError, http.client.HTTPException):
            return 503
        return 502 if status < 200 or 300 <= status < 400 else status

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, request_queue_size = True, 128
    slots = threading.BoundedSemaphore(CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.slots.acquire()  # others wait in the backlog of the socket
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self.slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

if __name__ == "__main__":
    if os.environ.get("ALARM_FORM") not in FORMS or not re.match("https?://[^/]", URL):
        sys.exit(f"set ALARM_FORM to one of {', '.join(FORMS)}, and ALARM_URL to the URL of the target")
    Server(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Relay).serve_forever()
