"""One Azure for all tests of the rehearsal, with one small platform in it."""

import shutil
import time

import pytest
import requests

from rehearsal.loopback import Loopback
from rehearsal.options import Options
from rehearsal.pulumi.deployment import BUILT
from tests import ROOT

SUBSCRIPTION = "/subscriptions/00000000-0000-4000-8000-000000000002"
GROUP = f"{SUBSCRIPTION}/resourceGroups/rg"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/teststore"
WORKSPACE = f"{GROUP}/providers/Microsoft.MachineLearningServices/workspaces/ws"
API = {"api-version": "2024-10-01"}
OPTIONS = Options(
    program_folder=ROOT / ".venv-trainer" / "bin",
    allocation_seconds=0.05,
    max_idle_seconds=1.0,
    sync_seconds=0.1,
    grace_seconds=1.0,
)


class Client:
    """Raw requests as somebody who is signed in."""

    def __init__(self, azure):
        self.azure = azure
        self.session = requests.Session()
        # Or a bundle of the environment would win over ours.
        self.session.trust_env = False
        self.session.verify = str(azure.certificate.bundle)
        self.token()

    def token(self, **changed):
        environment = self.azure.environment
        form = {
            "grant_type": "client_credentials",
            "client_id": environment["AZURE_CLIENT_ID"],
            "client_secret": environment["AZURE_CLIENT_SECRET"],
            "scope": f"{self.azure.url}/.default",
        } | changed
        tenant = environment["AZURE_TENANT_ID"]
        answer = self.session.post(f"{self.azure.url}/{tenant}/oauth2/v2.0/token", data=form)
        if answer.ok and not changed:
            self.session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return answer

    def ask(self, method, path, body=None, **query):
        return self.session.request(
            method, self.azure.url + path, json=body, params={**API, **query}, timeout=30
        )

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def put(self, path, body):
        return self.ask("PUT", path, body)

    def details(self, name):
        return self.get(f"/history/v1.0{WORKSPACE}/runs/{name}/details").json()

    def wait(self, name, *statuses, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.details(name)
            if found["status"] in (statuses or ("Completed", "Failed", "Canceled")):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{name} is {found}")

    def log(self, name, file="std_log.txt"):
        url = self.details(name)["logFiles"].get(f"user_logs/{file}")
        return None if url is None else self.session.get(url, headers={"Authorization": None}).text

    def wait_for_log(self, name, text, file="std_log.txt", seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.log(name, file)
            if found and text in found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{text!r} is not in the log of {name}: {found!r}")

    def job(self, name, line, **properties):
        """Submit a command to the cluster."""
        body = {
            "jobType": "Command",
            "command": line,
            "computeId": f"{WORKSPACE}/computes/cluster",
            "environmentId": f"{WORKSPACE}/environments/image/versions/1",
            **properties,
        }
        return self.put(f"{WORKSPACE}/jobs/{name}", {"properties": body})


def declare(azure, low=True):
    """A platform of one account, workspace, datastore, environment and cluster."""
    azure.put(GROUP, "", {"location": "westeurope"})
    azure.put(ACCOUNT, "", {"location": "westeurope", "properties": {}})
    azure.put(f"{ACCOUNT}/blobServices/default/containers/results", "", {})
    azure.put(WORKSPACE, "", {"location": "westeurope", "properties": {"storageAccount": ACCOUNT}})
    azure.put(f"{WORKSPACE}/datastores/results", "", {"properties": {
        "datastoreType": "AzureBlob", "accountName": "teststore", "containerName": "results",
        "credentials": {"credentialsType": "None"}}})  # fmt: skip
    azure.put(f"{WORKSPACE}/environments/image/versions/1", "", {"properties": {"image": "x:1"}})
    azure.put(f"{WORKSPACE}/computes/cluster", "", compute())


def compute(most=2):
    return {
        "location": "westeurope",
        "properties": {
            "computeType": "AmlCompute",
            "properties": {
                "vmSize": "Standard_ND40rs_v2",
                "vmPriority": "LowPriority",
                "scaleSettings": {"minNodeCount": 0, "maxNodeCount": most},
            },
        },
    }


def pytest_collection_modifyitems(items):
    """Skip what needs Pulumi's engine where there is none; one that is too old is an error."""
    if shutil.which("pulumi") or shutil.which("pulumi", path=str(BUILT)):
        return
    words = f"needs Pulumi's engine, on the path or in {BUILT} (`make engine`)"
    for item in items:
        if item.get_closest_marker("rehearse_all"):
            item.add_marker(pytest.mark.skip(reason=words))


@pytest.fixture(scope="session")
def azure(tmp_path_factory):
    with Loopback(tmp_path_factory.mktemp("azure"), OPTIONS) as azure:
        declare(azure)
        yield azure


@pytest.fixture
def client(azure):
    azure.admin.clear_faults()
    azure.admin.capacity(f"{WORKSPACE}/computes/cluster", None)
    yield Client(azure)
    azure.admin.clear_faults()


@pytest.fixture
def results(azure):
    return azure.blobs.container("teststore", "results")
