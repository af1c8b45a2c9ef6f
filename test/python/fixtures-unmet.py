import urllib.request

def test_meets_no_fault(assetlog):
    assetlog.fail({"match": {"asset_key": "orders"}, "then": {"status": 503}})
    urllib.request.urlopen(urllib.request.Request(assetlog.url + "/report_asset_observation/order", method="POST"))
    assert assetlog.met() == [1]
