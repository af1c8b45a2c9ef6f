import json, os, sys, time
now, pauses = 0.0, []

def sleep(seconds):
    global now
    now += seconds
    pauses.append(seconds)

if "FROZEN" in os.environ:
    for name in ("time", "monotonic", "perf_counter"):
        setattr(time, name, lambda: 0.0)
import assetlog_client
if "FROZEN" not in os.environ:
    time.sleep, assetlog_client.now = sleep, lambda: now
NAN, BYTES = float("nan"), b""
for call in sys.stdin:
    pauses = []
    try:
        result = {"wrong": eval(call)}
    except (ValueError, assetlog_client.ReportError) as error:
        result = {"raised": type(error).__name__, "text": str(error), **vars(error)}
    print(json.dumps({**result, "pauses": pauses}), flush=True)
