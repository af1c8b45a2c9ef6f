import sys, requests
from dagster import RetryPolicy, asset, materialize
url, key = sys.argv[1:3]

@asset(retry_policy=RetryPolicy(max_retries=3))
def load(context):
    headers = {"Idempotency-Key": f"{context.run_id}/load"} if key else {}
    requests.post(url + "/report_asset_observation/a", headers=headers, timeout=10).raise_for_status()

sys.exit(0 if materialize([load], raise_on_error=False).success else 1)
