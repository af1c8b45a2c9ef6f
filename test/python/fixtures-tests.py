import json, threading, time
import pytest, requests

def report(url, path, **more):
    return requests.post(url + "/report_asset_" + path, timeout=10, **more)

@pytest.mark.parametrize("number", range(8))
def test_sees_what_it_reported_and_nothing_of_others(assetlog, number):
    assert assetlog.events() == []
    assert report(assetlog.url, f"materialization/orders/{number}?partition=2026-11-20").json() == {}
    assert report(assetlog.url, "check/orders?check_name=fresh&passed=false").status_code == 200
    assert [event["seq"] for event in assetlog.events()] == [1, 2]
    assert [event["asset_key"][1] for event in assetlog.events(type="materialization")] == [str(number)]
    assert assetlog.wait_for(check="fresh", passed="false")[0]["seq"] == 2
    assert assetlog.events(passed=False) == assetlog.events(type="check")
    assert assetlog.events(passed=True) == []
    assert len(assetlog.wait_for(count=2, timeout=1)) == 2

def test_reads_all_pages(assetlog):
    for _ in range(3):
        report(assetlog.url, "batch/", json=[{"type": "observation", "asset_key": "a"}] * 700)
    assert [event["seq"] for event in assetlog.events()] == list(range(1, 2101))
    assert [event["seq"] for event in assetlog.events(after_seq=2000, key="a")] == list(range(2001, 2101))

def test_a_key_in_a_fault_is_written_as_in_a_filter(assetlog):
    assetlog.fail({"match": {"asset_key": "warehouse/orders"}, "then": {"status": 503}})
    assert report(assetlog.url, "observation/warehouse/orders").status_code == 503
    assert assetlog.met() == [1]

def test_a_key_is_its_parts_and_none_is_no_filter(assetlog):
    for path in ["materialization/a/b?partition=p", "materialization/a%2Fb", "check/a"]:
        report(assetlog.url, path)
    seqs = lambda **filters: [event["seq"] for event in assetlog.events(**filters)]
    assert (seqs(key=["a", "b"]), seqs(key=("a/b",)), seqs(key="a/b")) == ([1], [2], [1])
    assert (seqs(partition=None, type=None), seqs(partition="p")) == ([1, 2], [1])
    assert assetlog.wait_for(key=["a/b"], partition=None)[0]["seq"] == 2
    [refused] = assetlog.refused()
    assert (refused["status"], refused["path"]) == (400, "/report_asset_check/a")
    assert "passed is missing" in refused["error"]
    assetlog.reset()
    assert assetlog.refused() == []

def test_metadata_is_compared_as_sent(assetlog):
    sent = '{"took_s": 1.50, "rows": 12345678901234567890, "rows": 1e400, "note": "\\u00fc"}'
    report(assetlog.url, "materialization/a", data='{"metadata": ' + sent + "}", headers={"Content-Type": "application/json"})
    for [event] in assetlog.events(), assetlog.wait_for(key="a"):
        assert '"metadata":' + sent.replace(": ", ":").replace(", ", ",") + ',"crc"' in event["line"]
        assert event == {**json.loads(event["line"]), "line": event["line"]}

def test_an_event_that_is_not_expected_fails_at_once_or_when_it_comes(assetlog):
    assetlog.expect_none(timeout=0)
    assetlog.expect_none(key="b", timeout=1)
    later = threading.Timer(0.2, report, [assetlog.url, "materialization/b"])
    later.start()
    with pytest.raises(AssertionError, match="^an event matched {'key': 'b'}, and none was expected: .*\"seq\":1,"):
        assetlog.expect_none(timeout=600, key="b")
    assetlog.expect_none(timeout=0, key="a")
    assert len(assetlog.wait_for(timeout=0)) == 1

def test_a_wait_ends_while_every_clock_is_frozen(assetlog, monkeypatch):
    for name in "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep":
        monkeypatch.setattr(time, name, lambda *_: 0)
    with pytest.raises(AssertionError, match="^0 of 1 events"):
        assetlog.wait_for(timeout=1)
    assetlog.expect_none()

def test_faults_are_given_one_by_one_or_as_a_list(assetlog):
    assetlog.fail([{"times": 1, "then": {"status": 500}}, {"times": 1, "then": {"status": 502}}])
    assert [report(assetlog.url, "observation/a").status_code for _ in range(3)] == [500, 502, 200]
    assert assetlog.met() == [1, 1]
    assetlog.fail([])
    assert assetlog.met() == []

def test_a_client_that_doubles(assetlog):
    session = requests.Session()
    retry = requests.adapters.Retry(3, allowed_methods=None)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
    assetlog.fail({"times": 1, "then": {"drop": "reply"}}, {"match": {"type": "check"}, "then": {"status": 500}})
    session.post(assetlog.url + "/report_asset_observation/a")
    assert len(assetlog.wait_for(count=2)) == 2
    assert report(assetlog.url, "check/a?check_name=fresh&passed=true").status_code == 500
    assert assetlog.met() == [1, 1]

def test_says_what_is_wrong(assetlog):
    with pytest.raises(AssertionError, match=r"faults\[0\].then.stauts is unknown; did you mean status"):
        assetlog.fail({"then": {"stauts": 503}})
    with pytest.raises(AssertionError, match="did you mean key"):
        assetlog.events(keys="a")
    report(assetlog.url, "observation/a")
    with pytest.raises(AssertionError, match=r"0 of 1 events matched {'key': 'b'}; recorded: .*'asset_key': \['a'\]"):
        assetlog.wait_for(key="b", timeout=0.5)
