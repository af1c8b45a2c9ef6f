# pytest fixtures of assetlog 0.4.0: assetlog pytest >> tests/conftest.py
import itertools
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from threading import Event, Timer
from typing import Any, Dict, Iterator, List
import pytest

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy is not for localhost

class Assetlog:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> str:
        __tracebackhide__ = True  # pytest shows the line of the test, not those of this class
        try:
            texts = {name: value if isinstance(value, str) else json.dumps(value)
                     for name, value in query.items() if value is not None}
            url = f"{self.url}{path}?{urllib.parse.urlencode(texts)}"
            headers = {"Content-Type": "application/json"}
            data = None if body is None else json.dumps(body).encode()
            text: str = direct.open(urllib.request.Request(url, data, headers, method=method)).read().decode()
            return text
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["error"]) from None
        except (OSError, TypeError, ValueError) as error:
            raise AssertionError(f"{method} {path} failed: {error}") from None

    def read(self, filters: Dict[str, Any], timeout: float = 0, after_seq: int = 0) -> Iterator[Dict[str, Any]]:
        """Yields the recorded events that match, and those that are recorded within so many seconds"""
        __tracebackhide__ = True
        if not isinstance(timeout, (int, float)) or not 0 <= timeout < 2**31:
            raise AssertionError(f"timeout is {timeout!r}; give seconds from 0")
        late = Event()
        timer = Timer(timeout, late.set)  # waits for a lock, since a test can freeze the clocks of the module time
        timer.daemon = True
        timer.start()
        if timeout == 0:
            late.set()
        try:
            while True:
                is_last = late.is_set()
                lines = self.ask("GET", "/events", after_seq=after_seq, wait=int(not is_last), limit=1000, **filters)
                for line in lines.splitlines():
                    event = {**json.loads(line), "line": line}
                    after_seq = event["seq"]
                    yield event
                if is_last and not lines:
                    return
        finally:
            timer.cancel()

    def events(self, after_seq: int = 0, **filters: Any) -> List[Dict[str, Any]]:
        """With the filters of GET /events: key="warehouse/orders" or key=["warehouse", "orders"], type="check", passed=False.
        event["line"] is the line of the journal, which has the metadata as it was sent: '"metadata":{"took_s":1.50}'"""
        __tracebackhide__ = True
        return list(self.read(filters, after_seq=after_seq))

    def wait_for(self, count: int = 1, timeout: float = 5, **filters: Any) -> List[Dict[str, Any]]:
        """Returns the first events that match, recorded already or within so many seconds"""
        __tracebackhide__ = True
        if not isinstance(count, int) or count < 1:
            raise AssertionError(f"count is {count!r}; give a whole number from 1")
        found = list(itertools.islice(self.read(filters, timeout), count))
        if len(found) < count:
            recorded = [json.loads(event["line"]) for event in self.events()]
            raise AssertionError(f"{len(found)} of {count} events matched {filters}; recorded: {recorded}; "
                                 f"refused: {self.refused()}")
        return found

    def expect_none(self, timeout: float = 1, **filters: Any) -> None:
        """Fails at the first event that matches, recorded already or within so many seconds"""
        __tracebackhide__ = True
        for event in self.read(filters, timeout):
            raise AssertionError(f"an event matched {filters}, and none was expected: {event['line']}")

    def refused(self) -> Any:
        """The refused requests, the newest first, with status, method, path and error"""
        __tracebackhide__ = True
        return json.loads(self.ask("GET", "/refusals"))["refusals"]

    def fail(self, *faults: Any) -> None:
        """Adds faults like POST /test/faults: {"times": 2, "then": {"status": 503}}; fail([]) removes all"""
        __tracebackhide__ = True
        added = faults[0] if len(faults) == 1 and isinstance(faults[0], list) else faults
        if added:
            self.ask("POST", "/test/faults", {"faults": added})
        else:
            self.ask("DELETE", "/test/faults")

    def met(self) -> List[int]:
        """How many reports met each fault, in the order of the faults"""
        __tracebackhide__ = True
        faults = json.loads(self.ask("GET", "/test/faults"))["faults"]
        for fault in faults:
            if fault["met"] == 0:
                print("no report met", fault)
        return [fault["met"] for fault in faults]

    def reset(self) -> None:
        __tracebackhide__ = True
        self.ask("POST", "/test/reset")

@pytest.fixture(scope="session")
def stand_in() -> Iterator[Assetlog]:
    path = os.environ.get("ASSETLOG_PROGRAM") or shutil.which("assetlog")
    if not path:
        pytest.fail("no assetlog on the PATH; set ASSETLOG_PROGRAM to its path or to the path of server.js", False)
    assert path is not None
    node = ["node"] if path.endswith(".js") else []
    command = [*node, path, "serve", "--test", "--port", "0", "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            pytest.fail(f"assetlog did not start: exit code {process.wait()}", False)
        yield Assetlog(ready.split()[3])  # the end of the block closes its standard input

@pytest.fixture
def assetlog(stand_in: Assetlog) -> Assetlog:
    """A service that is empty at the start of each test"""
    stand_in.reset()
    return stand_in
