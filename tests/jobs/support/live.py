"""A platform on the simulator, as tests/jobs/support/platform.py describes it.

`pytest_plugins` is not needed: import the fixtures from a conftest or a test module.
`live` is one Azure for the session; `outputs` are those of its platform.
"""

import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from infra import outputs as contract
from infra.outputs import PlatformOutputs
from jobs.azure import requests, storage
from jobs.azure.job_records import ENDED
from jobs.azure.sign_in import credential
from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests import ROOT
from tests.jobs.support.platform import platform
from tests.jobs.support.server import write_server

GPU_NODES = 4
ARM = "2024-10-01"
NO_BACKOFF = {"initial_backoff": 0, "increment_base": 0, "random_jitter_range": 0}
WORKSPACES = "Microsoft.MachineLearningServices/workspaces"


@dataclass(frozen=True)
class Live:
    """The simulator with one platform."""

    azure: Simulator
    outputs: PlatformOutputs
    file: Path
    """The outputs as JSON, for `--outputs` and JOBS_OUTPUTS."""

    @property
    def group(self) -> str:
        """Id of the resource group."""
        outputs = self.outputs
        return f"/subscriptions/{outputs.subscription_id}/resourceGroups/{outputs.resource_group}"

    @property
    def workspace(self) -> str:
        """Id of the workspace."""
        name = self.outputs.workspace
        return f"{self.group}/providers/{WORKSPACES}/{name}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a child process that finds this platform and nothing else."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, **self.azure.environment, "JOBS_OUTPUTS": str(self.file)}


def declare(azure: Simulator, folder: Path, described: PlatformOutputs | None = None) -> Live:
    """Make a platform by the PUTs that a deployment would send.

    Args:
        azure: where.
        folder: where the file of outputs is written.
        described: the platform; that of tests/jobs/support/platform.py with few nodes if none.
    """
    described = described or platform(max_nodes=GPU_NODES)
    live = Live(azure, with_endpoints(azure, described), folder / f"{described.workspace}.json")
    out, group, workspace = live.outputs, live.group, live.workspace
    tags = {"stack": out.stack, "managed-by": "pulumi"}
    azure.put(group, ARM, {"location": out.region, "tags": tags})
    stores = (out.datastores.raw, out.datastores.prepared, out.datastores.results)
    accounts = {
        name: f"{group}/providers/Microsoft.Storage/storageAccounts/{name}"
        for name in {store.account: None for store in stores}
    }
    for account, identifier in accounts.items():
        premium = account == out.datastores.prepared.account
        body = {
            "location": out.region,
            "kind": "BlockBlobStorage" if premium else "StorageV2",
            "sku": {"name": "Premium_LRS" if premium else "Standard_LRS"},
            "properties": {"allowSharedKeyAccess": False, "supportsHttpsTrafficOnly": True},
        }
        azure.put(identifier, "2023-05-01", body)
        assert azure.blob_endpoint(account) == next(
            store.blob_endpoint for store in stores if store.account == account
        )
    for store in stores:
        container = f"{accounts[store.account]}/blobServices/default/containers/{store.container}"
        azure.put(container, "2023-05-01", {"properties": {}})
    vault = out.vault_uri.removeprefix("https://").split(".")[0]
    vault_id = f"{group}/providers/Microsoft.KeyVault/vaults/{vault}"
    azure.put(vault_id, "2023-07-01", {"location": out.region, "properties": {
        "sku": {"family": "A", "name": "standard"}, "tenantId": out.tenant_id,
        "enableSoftDelete": True}})  # fmt: skip
    azure.put(workspace, ARM, {"location": out.region, "tags": tags, "properties": {
        "storageAccount": accounts[out.datastores.results.account], "keyVault": vault_id,
        "publicNetworkAccess": "Disabled"}})  # fmt: skip
    for store in stores:
        azure.put(f"{workspace}/datastores/{store.name}", ARM, {"properties": {
            "datastoreType": "AzureBlob", "accountName": store.account,
            "containerName": store.container, "credentials": {"credentialsType": "None"},
            "serviceDataAccessAuthIdentity": "None"}})  # fmt: skip
    for cluster in out.clusters.values():
        azure.put(f"{workspace}/computes/{cluster.name}", ARM, _compute(out, cluster))
    live.file.write_text(json.dumps(contract.to_dict(live.outputs)))
    return live


def with_endpoints(azure: Simulator, described: PlatformOutputs) -> PlatformOutputs:
    """Return the outputs with the URLs of the simulator's blob storage, and its tenant."""
    stores = described.datastores
    moved = {
        name: replace(store, blob_endpoint=azure.blob_endpoint(store.account))
        for name in ("raw", "prepared", "results")
        for store in [getattr(stores, name)]
    }
    return replace(
        described,
        tenant_id=azure.options.tenant_id,
        datastores=replace(stores, **moved),
    )


def _compute(out: PlatformOutputs, cluster: contract.Cluster) -> dict[str, Any]:
    return {
        "location": out.region,
        "properties": {
            "computeType": "AmlCompute",
            "properties": {
                "vmSize": cluster.size,
                "vmPriority": cluster.priority,
                "osType": "Linux",
                "enableNodePublicIp": False,
                "scaleSettings": {
                    "minNodeCount": 0,
                    "maxNodeCount": cluster.max_nodes,
                    "nodeIdleTimeBeforeScaleDown": "PT120S",
                },
            },
        },
    }


@pytest.fixture(scope="session")
def azure(tmp_path_factory):
    """The simulator for the session."""
    options = Options(
        program_folder=ROOT / ".venv-trainer" / "bin",
        serving_python=write_server(tmp_path_factory.mktemp("server")),
        max_processes_per_node=1,
        max_idle_seconds=2.0,
        allocation_seconds=0.1,
        sync_seconds=0.2,
        grace_seconds=3.0,
    )
    with Simulator(tmp_path_factory.mktemp("azure"), options) as azure:
        yield azure


@pytest.fixture(scope="session")
def simulated_platform(azure, tmp_path_factory):
    """The platform, once for the session; use `live`."""
    return declare(azure, tmp_path_factory.mktemp("platform"))


def sdk(live: Live) -> Any:
    """Client of Azure's SDK for the platform, to check what other programs see."""
    from azure.ai.ml import MLClient

    outputs = live.outputs
    return MLClient(
        credential(live.outputs.tenant_id),
        outputs.subscription_id,
        outputs.resource_group,
        outputs.workspace,
        enable_telemetry=False,
        show_progress=False,
    )


@pytest.fixture
def live(simulated_platform, monkeypatch):
    """The platform, with this process's environment pointed at it; no faults, and no running jobs,
    from tests before.
    """
    azure = simulated_platform.azure
    for name, value in azure.environment.items():
        monkeypatch.setenv(name, value)
    # The SDK sets it to a cloud that later tests do not know; only the value that was set here is
    # taken back.
    monkeypatch.setenv("AZUREML_CURRENT_CLOUD", "")
    monkeypatch.delenv("AZUREML_CURRENT_CLOUD")
    # A request that is refused for a moment is sent again at once: this Azure has no other user.
    monkeypatch.setattr(requests, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(storage, "BACKOFF", NO_BACKOFF)
    azure.admin.clear_faults()
    azure.admin.forget_requests()
    yield simulated_platform
    azure.admin.clear_faults()
    azure.admin.start_blob_server()
    # What still ran would take nodes and processors from the tests after it.
    for job in azure.resources.of_kind(f"{WORKSPACES}/jobs"):
        if azure.runs.get(job["id"])["status"] not in ENDED:
            azure.scheduler.cancel(job["id"])
    for job in azure.resources.of_kind(f"{WORKSPACES}/jobs"):
        if azure.runs.get(job["id"])["status"] not in ENDED:
            azure.scheduler.cancel(job["id"])
    for cluster in azure.resources.of_kind(f"{WORKSPACES}/computes"):
        azure.admin.capacity(cluster["id"], None)


@pytest.fixture
def outputs(live, monkeypatch):
    """Set the environment variable that names the platform's outputs."""
    monkeypatch.setenv("JOBS_OUTPUTS", str(live.file))
    return live.outputs


def main() -> None:
    """Serve a platform until a signal comes, and print the environment that finds it."""
    folder = Path(sys.argv[1]).absolute()
    options = Options(program_folder=ROOT / ".venv-trainer" / "bin", max_processes_per_node=1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with suppress(KeyboardInterrupt), Simulator(folder, options) as azure:
        live = declare(azure, folder)
        for name, value in {**azure.environment, "JOBS_OUTPUTS": str(live.file)}.items():
            print(f"export {name}={shlex.quote(value)}")
        sys.stdout.flush()
        print(f"{live.outputs.workspace} on {azure.url}; Ctrl-C ends it", file=sys.stderr)
        signal.pause()


if __name__ == "__main__":
    main()
