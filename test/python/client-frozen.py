import sys, time
from freezegun import freeze_time
before = sys.argv[1] == "before"
freezer = freeze_time("2026-11-20")
if before:
    freezer.start()
import assetlog_client
if not before:
    freezer.start()
began = time.time(), time.monotonic()
for url in sys.argv[2:]:
    try:
        print(assetlog_client.report([{"type": "observation", "asset_key": "a"}], url=url, timeout=0.3, retry_for=1))
    except assetlog_client.ReportError as error:
        print(type(error).__name__)
assert (time.time(), time.monotonic()) == began
