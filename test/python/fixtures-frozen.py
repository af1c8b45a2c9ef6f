import datetime, time, pytest, requests
from freezegun import freeze_time

@freeze_time("2026-11-20")
def test_frozen(assetlog):
    with pytest.raises(AssertionError, match="^0 of 1 events"):
        assetlog.wait_for(timeout=1)
    assetlog.expect_none()
    requests.post(assetlog.url + "/report_asset_observation/a", timeout=10)
    assert assetlog.wait_for(key="a")[0]["seq"] == 1
    assert time.monotonic() == time.monotonic() and datetime.date.today().isoformat() == "2026-11-20"
