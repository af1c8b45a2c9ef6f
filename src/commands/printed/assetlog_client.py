# Client of assetlog 0.4.0: assetlog python > assetlog_client.py
# For Python 3.8 or newer, with the standard library only.
import email.utils
import http.client
import ipaddress
import json
import os
import random
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Type

BODY_BYTES, BODY_ITEMS = 1024 * 1024, 10_000  # of one request
REPLY_BYTES = 1024 * 1024
LOCAL = r"(.+\.)?localhost\.?|127(\.[0-9]+){3}|0\.0\.0\.0|::1?|::ffff:127(\.[0-9]+){3}"

class ReportError(Exception):
    """Of the first "done" items of the call with this key, all but "wrong" are recorded. "status" is 0 without a reply."""
    key, done, status = "", 0, 0
    wrong: List[Dict[str, Any]] = []

class Refused(ReportError):
    """A repetition is of no use, as for a wrong token or address."""

class Unavailable(ReportError):
    """The service was away until retry_for had passed: report the same items with the same key again, later."""

class InDoubt(ReportError):
    """A reply was lost, and this service takes no keys: a repetition could record the items of the request twice."""

def report(items: Iterable[Mapping[str, Any]], key: Optional[str] = None, url: Optional[str] = None,
           headers: Optional[Mapping[str, str]] = None, retry_for: float = 60, timeout: float = 10) -> List[Dict[str, Any]]:
    """Reports each item once. Returns the items that are wrong, and so not recorded: [{"item": 2, "error": "..."}], from 1.

    A call with the key and the items of an earlier one records nothing twice. Raises ValueError, Refused, Unavailable and
    InDoubt.
    """
    batches = cut([encode(number, item) for number, item in enumerate(items, 1)])
    key = str(uuid.uuid4()) if key is None else key
    keys = [key] + [f"{key}/{number}" for number in range(1, len(batches))]
    if not re.fullmatch("[!-~]{1,255}", keys[-1]):
        raise ValueError(f"key {keys[-1]!r} is not 1 to 255 visible ASCII characters")
    call = Call(url or os.environ.get("ASSETLOG_URL") or "http://127.0.0.1:3000", headers or {}, retry_for, timeout)
    done = 0
    wrong: List[Dict[str, Any]] = []
    try:
        for batch_key, lines in zip(keys, batches):
            wrong += [{"item": done + number, "error": error} for number, error in call.send(batch_key, lines)]
            done += len(lines)
    except ReportError as error:
        error.key, error.done, error.wrong = key, done, wrong
        error.args = (f"{error} (key {key}, {done} of {sum(map(len, batches))} items done)",)
        raise
    return wrong

def now() -> float:
    """Seconds of a clock that no library for tests, such as freezegun, stops. Windows has none."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) if hasattr(time, "clock_gettime") else time.monotonic()

def encode(number: int, item: Mapping[str, Any]) -> str:
    try:
        return json.dumps(item, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"item {number} is not JSON: {error}") from None

def cut(lines: List[str]) -> List[List[str]]:
    """The same lines are always cut alike, since their keys depend on it. A line over the limit is alone."""
    batches: List[List[str]] = []
    size = BODY_BYTES
    for line in lines:
        size += len(line) + 1
        if size > BODY_BYTES or len(batches[-1]) == BODY_ITEMS:
            batches.append([])
            size = len(line)
        batches[-1].append(line)
    return batches

class AnyStatus(urllib.request.HTTPErrorProcessor):
    """Follows no redirect: it would lead the token to another address, and lose the body."""
    def http_response(self, request: Any, response: Any) -> Any:
        return response
    https_response = http_response

class Connections(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """Ends a request, whatever arrives: the timeout of urllib starts again at each byte."""
    made: Any = None
    sock: Any = None
    is_over = False

    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:
        def make(*args: Any, **options: Any) -> Any:
            self.made = http_class(*args, **options)
            connect = self.made.connect
            def keep() -> None:
                connect()
                self.sock = self.made.sock  # a reply keeps it longer than the connection
                if self.is_over:
                    raise socket.timeout("timed out")
            self.made.connect = keep
            return self.made
        return super().do_open(make, req, **http_conn_args)

    def begin(self, seconds: float) -> threading.Timer:
        self.made, self.sock, self.is_over = None, None, False
        timer = threading.Timer(seconds, self.end)  # waits for a lock, so it needs no clock of the module time
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # the interpreter ends, and starts no thread
            pass
        return timer

    def end(self) -> None:
        self.is_over = True
        sock = getattr(self.made, "sock", None) or self.sock
        try:
            if sock:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # also below TLS
        except OSError:  # it has ended
            pass

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

class Call:
    def __init__(self, url: str, headers: Mapping[str, str], retry_for: float, timeout: float) -> None:
        self.url, self.late, self.timeout = url.rstrip("/"), now() + retry_for, timeout
        self.longest = max(timeout, retry_for)  # of one attempt: a slow link takes longer than the timeout
        self.has_keys: Optional[bool] = None  # not known yet
        if re.match("https?://[^/?#]*@", self.url):
            raise ValueError('url has a login before its host; leave it out, and give headers={"Authorization": "Basic ..."}')
        is_url = re.fullmatch(r'https?://([^/?#:\[\]\s]+|\[[^/?#\s]+\])(:[0-9]+)?(/[!-"$->@-~]*)?', self.url)
        parts = urllib.parse.urlsplit(self.url if is_url else "")
        if not is_url or parts.port == 0:
            raise ValueError("url is not a base URL such as https://assets.example/prod")
        self.headers = {"Content-Type": "application/x-ndjson", "Prefer": "handling=lenient"}
        if os.environ.get("ASSETLOG_TOKEN_FILE"):
            with open(os.environ["ASSETLOG_TOKEN_FILE"]) as file:
                self.headers[os.environ.get("ASSETLOG_TOKEN_HEADER") or "Service-Cloud-Api-Token"] = file.read().strip()
        self.headers.update(headers)
        for name, value in self.headers.items():
            if not re.fullmatch("[ -~]+", value):  # without the value, which can be a token
                raise ValueError(f"the value of {name} is not one line of ASCII characters")
        host = parts.hostname or ""
        proxies = [urllib.request.ProxyHandler({})] if re.fullmatch(LOCAL, host) or is_excepted(host) else []
        self.connections = Connections()
        self.opener = urllib.request.build_opener(AnyStatus, self.connections, *proxies)

    def send(self, key: str, lines: List[str]) -> List[Tuple[int, str]]:
        """Returns the wrong items. An empty line is no item: the others keep their numbers, which are a part of their keys."""
        if len(lines[0]) > BODY_BYTES:
            return [(1, f"it has {len(lines[0])} bytes, and a request has at most {BODY_BYTES}")]
        left = {number for number, line in enumerate(lines, 1) if line}
        wrong: List[Tuple[int, str]] = []
        while left:
            status, reply, problem = self.post(key, "\n".join(lines).encode())
            if status == 413 and len(left) == 1:
                return wrong + [(left.pop(), problem)]
            if status == 413:  # the limit of a proxy, or of a service with little memory
                half = sorted(left)[len(left) // 2] - 1
                return wrong + self.send(key, lines[:half]) + self.send(key, [""] * half + lines[half:])
            try:
                failed = len(left) if status == 400 else reply.get("failed", 0)
                errors = {one["item"]: one["error"] for one in reply.get("errors", [])}
                if not errors.keys() <= left or (failed and not errors) or failed + reply.get("recorded", 0) != len(left):
                    raise ValueError(f"not the reply to {len(left)} items")
            except (AttributeError, KeyError, TypeError, ValueError):
                raise self.error(Refused, status, problem) from None
            wrong += sorted(errors.items())
            if failed == len(errors):
                break
            left -= errors.keys()  # a reply has the first 100
            lines = [line if number in left else "" for number, line in enumerate(lines, 1)]
        return wrong

    def post(self, key: str, body: bytes) -> Tuple[int, Dict[str, Any], str]:
        """Returns status, object and error of the first reply that is about the items."""
        quoted = '"%s"' % re.sub(r'["\\]', r"\\\g<0>", key)
        request = urllib.request.Request(f"{self.url}/report_asset_batch/", body, {**self.headers, "Idempotency-Key": quoted})
        pause, in_doubt, status, problem = 0.25, False, 0, ""
        headers: Any = {}
        while True:
            if not in_doubt or self.has_keys:
                status, headers, text, is_lost = self.ask(request)
                in_doubt = in_doubt or is_lost
                try:
                    reply = dict(json.loads(text))
                except (TypeError, ValueError):
                    reply = {}
                problem = str(reply.get("error", text[:300]))
                if status in (200, 207, 413) or (status == 400 and "errors" in reply):
                    return status, reply, problem
                is_token = status == 429 and 'realm="assetlog"' in headers.get("WWW-Authenticate", "")
                is_untrusted = status == 0 and "CERTIFICATE_VERIFY_FAILED" in text
                if 0 < status < 500 and status not in (408, 429) or is_token or is_untrusted:
                    raise self.error(Refused, status, headers.get("Location", problem) if 300 <= status < 400 else problem)
            if in_doubt and self.has_keys is None:
                self.has_keys = self.ask_for_keys()
            if in_doubt and self.has_keys is False:
                raise self.error(InDoubt, status, f"{problem}; the report is in doubt, since the service takes no keys")
            after, left = seconds(headers), self.late - now()
            if left <= 0 or after > left:
                raise self.error(Unavailable, status, problem)
            time.sleep(min(left, after + pause * random.uniform(0.5, 1)))
            pause = min(10, 2 * pause)

    def ask_for_keys(self) -> Optional[bool]:
        """Whether the service records a request with a key once. None if it does not answer now."""
        above = self.url.rpartition("/")[0]  # the document describes all deployments
        for url in [self.url] if above.endswith("/") else [self.url, above]:
            status, _, text, _ = self.ask(urllib.request.Request(f"{url}/openapi.json", headers=self.headers))
            if status in (0, 408, 429) or status >= 500:
                return None
            try:
                document = json.loads(text)
                if any(path.endswith("/report_asset_batch/") for path in document["paths"]):
                    return "Idempotency-Key" in document["components"]["parameters"]
            except (AttributeError, KeyError, TypeError, ValueError):
                pass  # the document of another service
        return False

    def ask(self, request: urllib.request.Request) -> Tuple[int, Any, str, bool]:
        """Returns status, headers and text of the reply, and whether the service might have done what its reply does not say."""
        timer = self.connections.begin(self.longest)
        try:
            with self.opener.open(request, timeout=self.timeout) as reply:
                body = reply.read(REPLY_BYTES)
                if self.connections.is_over:
                    raise socket.timeout("timed out")
                if reply.length and len(body) < REPLY_BYTES:
                    raise http.client.IncompleteRead(body, reply.length)
                return reply.status, reply.headers, body.decode(errors="replace"), reply.status >= 500 and reply.status != 503
        except urllib.error.URLError as error:  # before the whole request was sent
            return 0, {}, str(error.reason) or type(error.reason).__name__, False
        except (OSError, http.client.HTTPException) as error:  # also timeouts and resets
            return 0, {}, "timed out" if self.connections.is_over else str(error) or type(error).__name__, True
        finally:
            timer.cancel()

    def error(self, kind: Type[ReportError], status: int, problem: str) -> ReportError:
        error = kind(f"{self.url} answers {status}: {problem}" if status else f"{self.url} does not answer: {problem}")
        error.status = status
        return error

def seconds(headers: Any) -> float:
    """Reads Retry-After, seconds or a date. Returns 0 if it is missing or malformed."""
    after, now = headers.get("Retry-After", ""), headers.get("Date", "")
    try:
        if after.isdigit():
            return int(after)
        then, now = (email.utils.mktime_tz(email.utils.parsedate_tz(text)) for text in (after, now))
        return max(0, then - now)
    except (OverflowError, TypeError, ValueError):
        return 0
