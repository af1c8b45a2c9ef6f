import datetime, time, urllib.request
import pytest
from freezegun import freeze_time

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

def report(url, path):
    return direct.open(urllib.request.Request(url + "/report_asset_" + path, method="POST")).status

def load_orders(url):
    for attempt in range(5):
        try:
            return report(url, "observation/warehouse/orders")
        except urllib.error.HTTPError:
            pass

def test_each_test_begins_empty_and_reads_what_it_reported(assetlog):
    assert assetlog.events() == []
    report(assetlog.url, "materialization/a/b?partition=p")
    report(assetlog.url, "check/a?check_name=c&passed=false")
    assert [event["seq"] for event in assetlog.events(passed=False)] == [2]
    assert assetlog.wait_for(key=["a", "b"], count=1)[0]["partition"] == "p"
    with pytest.raises(AssertionError, match="^an event matched {'type': 'check'}, and none was expected: "):
        assetlog.expect_none(type="check")

def test_says_what_is_wrong(assetlog):
    with pytest.raises(urllib.error.HTTPError):
        report(assetlog.url, "check/a")
    assert [refused["status"] for refused in assetlog.refused()] == [400]
    with pytest.raises(AssertionError, match="did you mean status"):
        assetlog.fail({"then": {"stauts": 503}})
    with pytest.raises(AssertionError, match=r"^0 of 1 events matched {'key': 'b'}; recorded: \[\]; refused: \[{"):
        assetlog.wait_for(key="b", timeout=0.1)

@freeze_time("2026-11-20")
def test_a_wait_ends_while_the_time_is_frozen(assetlog):
    with pytest.raises(AssertionError, match="^0 of 1 events"):
        assetlog.wait_for(timeout=0.5)
    assert time.monotonic() == time.monotonic() and datetime.date.today().isoformat() == "2026-11-20"
