import time, urllib.error, urllib.request

def load_orders(url):
    request = urllib.request.Request(url + "/report_asset_materialization/warehouse/orders", method="POST")
    for attempt in range(5):
        try:
            return urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            time.sleep(float(error.headers["Retry-After"]))
