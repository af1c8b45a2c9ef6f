import json, sys
import assetlog_client
try:
    print(json.dumps(assetlog_client.report([{"type": "observation", "asset_key": "a"}], url=sys.argv[1], timeout=5, retry_for=5)))
except assetlog_client.ReportError as error:
    print(error)
