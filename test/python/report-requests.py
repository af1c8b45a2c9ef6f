import sys, requests
from urllib3.util import Retry
url, key, more = sys.argv[1], sys.argv[2], eval(sys.argv[3])
session = requests.Session()
if more is not None:
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=Retry(3, status_forcelist=[503], **more)))
session.get(url + "/livez")
headers = {"Idempotency-Key": key} if key else {}
session.post(url + "/report_asset_observation/a", headers=headers, timeout=10).raise_for_status()
