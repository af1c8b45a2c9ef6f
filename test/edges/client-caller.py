"""Calls the client of `assetlog python` as callers do, with types of their own."""

from typing import Dict, List, TypedDict

from assetlog_client import InDoubt, Refused, Unavailable, report


class Item(TypedDict):
    type: str
    asset_key: List[str]


items: List[Item] = [{"type": "observation", "asset_key": ["warehouse", "orders"]}]
plain: List[Dict[str, str]] = [{"type": "observation", "asset_key": "orders"}]
headers: Dict[str, str] = {"Service-Cloud-Api-Token": "token"}
try:
    for wrong in report(items, key="load-17", headers=headers) + report(plain):
        print(wrong["item"], wrong["error"])
except (InDoubt, Refused, Unavailable) as error:
    done: int = error.done
    print(error.key, done, error.status, error.wrong)
