"""A small platform, declared by PUTs to the simulator, and a client with raw requests."""

import uuid

import requests

from rehearsal.options import Options
from tests import ROOT
from tests.rehearsal.support.waiting import until

SUBSCRIPTION = "/subscriptions/00000000-0000-4000-8000-000000000002"
GROUP = f"{SUBSCRIPTION}/resourceGroups/rg"
PROVIDERS = f"{GROUP}/providers"
ACCOUNT = f"{PROVIDERS}/Microsoft.Storage/storageAccounts/teststore"
WORKSPACE = f"{PROVIDERS}/Microsoft.MachineLearningServices/workspaces/ws"
CLUSTER = f"{WORKSPACE}/computes/cluster"
RESULTS = "azureml://datastores/results/paths"
API = {"api-version": "2024-10-01"}
STORAGE = "https://storage.azure.com/.default"
"""Scope of tokens for blob storage."""
OPTIONS = Options(
    program_folder=ROOT / ".venv-trainer" / "bin",
    allocation_seconds=0.05,
    max_idle_seconds=1.0,
    sync_seconds=0.1,
    grace_seconds=1.0,
)


class Client:
    """Raw requests as a program with a token."""

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

    def storage_headers(self, **changed):
        """Headers of requests to blobs, with a token for them."""
        token = self.token(scope=STORAGE, **changed).json()["access_token"]
        return {
            "x-ms-version": "2023-11-03",
            "x-ms-blob-type": "BlockBlob",
            "Authorization": f"Bearer {token}",
        }

    def ask(self, method, path, body=None, **query):
        return self.session.request(
            method, self.azure.url + path, json=body, params={**API, **query}, timeout=300
        )

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def put(self, path, body):
        return self.ask("PUT", path, body)

    def job(self, name, line, **properties):
        """Submit a command to the cluster."""
        body = {
            "jobType": "Command",
            "command": line,
            "computeId": CLUSTER,
            "environmentId": f"{WORKSPACE}/environments/image/versions/1",
            **properties,
        }
        return self.put(f"{WORKSPACE}/jobs/{name}", {"properties": body})

    def cancel(self, name):
        return self.ask("POST", f"{WORKSPACE}/jobs/{name}/cancel")

    def details(self, name):
        return self.get(f"/history/v1.0{WORKSPACE}/runs/{name}/details").json()

    def wait(self, name, *statuses):
        """The run of a job, once it has one of these statuses, or has ended."""
        ends = statuses or ("Completed", "Failed", "Canceled")
        until(
            lambda: self.details(name)["status"] in ends,
            lambda: f"{name} is {self.details(name)}",
        )
        return self.details(name)

    def log(self, name, file="std_log.txt"):
        url = self.details(name)["logFiles"].get(f"user_logs/{file}")
        return None if url is None else self.session.get(url, headers={"Authorization": None}).text

    def wait_for_log(self, name, text, file="std_log.txt"):
        until(
            lambda: text in (self.log(name, file) or ""),
            lambda: f"{text!r} is not in the log of {name}: {self.log(name, file)!r}",
        )


def declare(azure):
    """A platform of one account, workspace, datastore, environment and cluster."""
    azure.put(GROUP, "", {"location": "westeurope"})
    azure.put(ACCOUNT, "", {"location": "westeurope", "properties": {}})
    azure.put(f"{ACCOUNT}/blobServices/default/containers/results", "", {})
    azure.put(WORKSPACE, "", {"location": "westeurope", "properties": {"storageAccount": ACCOUNT}})
    azure.put(f"{WORKSPACE}/datastores/results", "", {"properties": {
        "datastoreType": "AzureBlob", "accountName": "teststore", "containerName": "results",
        "credentials": {"credentialsType": "None"}}})  # fmt: skip
    azure.put(f"{WORKSPACE}/environments/image/versions/1", "", {"properties": {"image": "x:1"}})
    azure.put(CLUSTER, "", compute())


def give(azure, principal, role, scope):
    """Assign a role, as a principal that may."""
    name = f"{scope}/providers/Microsoft.Authorization/roleAssignments/{uuid.uuid4()}"
    definition = f"{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{role}"
    properties = {
        "principalId": principal,
        "principalType": "ServicePrincipal",
        "roleDefinitionId": definition,
    }
    return azure.put(name, "", {"properties": properties})["id"]


def compute(nodes=2, priority="LowPriority"):
    """The body of a cluster."""
    return {
        "location": "westeurope",
        "properties": {
            "computeType": "AmlCompute",
            "properties": {
                "vmSize": "Standard_ND40rs_v2",
                "vmPriority": priority,
                "scaleSettings": {"minNodeCount": 0, "maxNodeCount": nodes},
            },
        },
    }


def error(answer):
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]
