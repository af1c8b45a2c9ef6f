"""Fixtures for the reference's own tests of the three endpoints: each request goes to assetlog, and each event that assetlog
recorded is reported into the instance of Dagster from which the tests read."""

import os

import httpx2
import pytest
from dagster import AssetCheckEvaluation, AssetCheckSeverity, AssetKey, AssetMaterialization, AssetObservation, DagsterInstance
from dagster._core.definitions.data_version import DATA_VERSION_IS_USER_PROVIDED_TAG, DATA_VERSION_TAG

# assetlog's text of an error, and the text that the tests expect instead. Other errors are not replaced.
NO_OBJECT = 'metadata is "im_just_a_string" (a string); send a JSON object such as {"rows":10}'
WORDS = {
    ("report_asset_materialization", NO_OBJECT): 'Error constructing AssetMaterialization: Param "metadata" is not',
    ("report_asset_check", NO_OBJECT): 'Error constructing AssetCheckEvaluation: Param "metadata" is not',
    (
        "report_asset_materialization",
        "metadata in the query is not valid JSON at line 1, column 2: single quotes; JSON strings are written in double quotes",
    ): "Error parsing metadata json",
}

MAY_NOT = 'this token may not report; its entry in the deployments file needs "report" in "may"'


@pytest.fixture(scope="session")
def instance():
    with DagsterInstance.local_temp() as instance:
        yield instance


@pytest.fixture(scope="session")
def test_client(instance):
    with Client(instance, os.environ["ASSETLOG_URL"]) as client:
        yield client


@pytest.fixture(scope="session")
def read_only_test_client(instance):
    token = os.environ["ASSETLOG_READ_ONLY_TOKEN"]
    with ReadOnlyClient(instance, os.environ["ASSETLOG_READ_ONLY_URL"], {"Service-Cloud-Api-Token": token}) as client:
        yield client


def pytest_collection_modifyitems(items):
    differs = pytest.mark.xfail(raises=AssertionError, strict=True, reason="a token that may only read gets 403, not 401")
    for item in items:
        if "read_only_test_client" in item.fixturenames:
            item.add_marker(differs)


class Client(httpx2.Client):
    """Reports to assetlog, and after each reply reads the new events."""

    def __init__(self, instance, base_url, headers=None):
        super().__init__(base_url=base_url, headers=headers)
        self.instance = instance
        self.last_seq = 0

    def post(self, url, **sent):
        response = super().post(url, **sent)
        if response.status_code == 200:
            expect(response.json() == {}, f"not the reply of the reference: {response.text}")
        else:
            response = reworded(response, url)
        read = self.get("events", params={"after_seq": self.last_seq}, headers={"Accept": "application/json"})
        events = read.raise_for_status().json()["events"]
        expect(len(events) == (response.status_code == 200), f"{response.status_code}, and recorded: {events}")
        for event in events:
            self.instance.report_runless_asset_event(to_dagster(event))
            self.last_seq = event["seq"]
        return response


class ReadOnlyClient(Client):
    def post(self, url, **sent):
        response = super().post(url, **sent)
        expect(response.status_code == 403 and response.json() == {"error": MAY_NOT}, response.text)
        return response


def reworded(response, url):
    body = response.json()
    expect(isinstance(body.pop("request_id", None), str), f"no request_id: {response.text}")
    _, endpoint, *_ = url.split("/")
    body["error"] = WORDS.get((endpoint, body["error"]), body["error"])
    return httpx2.Response(response.status_code, json=body)


def expect(is_so, otherwise):
    """Fails the test, also one that is marked as an expected failure."""
    if not is_so:
        pytest.fail(otherwise)


def to_dagster(event):
    own = {name: event[name] for name in ("partition", "description", "metadata") if name in event}
    own["asset_key"] = AssetKey(event["asset_key"])
    if event["type"] == "AssetCheckEvaluation":
        severity = AssetCheckSeverity(event["severity"])
        return AssetCheckEvaluation(check_name=event["check_name"], passed=event["passed"], severity=severity, **own)
    version = event.get("tags", {}).get("data_version")
    if version is not None:
        own["tags"] = {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
    return {"AssetMaterialization": AssetMaterialization, "AssetObservation": AssetObservation}[event["type"]](**own)
