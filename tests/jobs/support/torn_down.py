"""A platform to tear down, and a stand-in for Pulumi that has its state."""

import json
import os
import sys
import textwrap
import threading
import zlib
from contextlib import suppress
from dataclasses import replace

import pytest

from infra import prerequisites, stack_config
from jobs.azure.workspace import connect
from jobs.commands import teardown
from jobs.commands.teardown import TeardownOptions
from jobs.errors import MissingError
from jobs.pulumi.leftover_resources import AzureResources
from tests.jobs.support.live import declare
from tests.jobs.support.platform import platform

YES = TeardownOptions(yes=True, wait_minutes=0.5, poll_seconds=0.05)
"""For tests: without a question, and with the next look soon."""

PULUMI = """\
    #!{python}
    # Stands for Pulumi: remembers what it was asked, and deletes what its state names.
    import json, os, pathlib, ssl, sys, time, urllib.error, urllib.parse, urllib.request

    here = pathlib.Path("state")
    with (here / "asked").open("a") as file:
        file.write(" ".join(sys.argv[1:]) + chr(10))
    state = json.loads((here / "state.json").read_text())
    if (here / "elsewhere").exists():
        print("error: no stack named 'dev' found", file=sys.stderr)
        sys.exit(255)
    if (here / "damaged").exists() and sys.argv[1] != "config":
        print("error: snapshot integrity failure; it was already written", file=sys.stderr)
        sys.exit(255)
    if sys.argv[1:3] == ["stack", "export"]:
        print(json.dumps(state))
        sys.exit()
    if sys.argv[1] == "config":
        print((here / "config.json").read_text())
        sys.exit()
    if (here / "refused").exists():
        said, times = json.loads((here / "refused").read_text())
        (here / "refused").write_text(json.dumps([said, times - 1]))
        if times == 1:
            (here / "refused").unlink()
        urn = "urn:pulumi:dev::ml::azure-native:network:Subnet::snet"
        event = {{"severity": "error", "urn": urn, "message": said}}
        events = pathlib.Path(os.environ["PULUMI_OPTION_EVENT_LOG"])
        events.write_text(json.dumps({{"diagnosticEvent": event}}) + chr(10))
        print("error: " + said, file=sys.stderr)
        sys.exit(255)
    if (here / "fails").exists():
        print("error: refused", file=sys.stderr)
        sys.exit(255)
    if (here / "slow").exists():
        (here / "begun").touch()
        time.sleep(1)
    print("destroying")
    trusted = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
    base, tenant = os.environ["AZURE_AUTHORITY_HOST"], os.environ["AZURE_TENANT_ID"]

    def ask(request):
        return urllib.request.urlopen(request, context=trusted).read()

    token = json.loads(ask(urllib.request.Request(
        f"{{base}}/{{tenant}}/oauth2/v2.0/token",
        urllib.parse.urlencode({{
            "grant_type": "client_credentials", "scope": f"{{base}}/.default",
            "client_id": os.environ["AZURE_CLIENT_ID"],
            "client_secret": os.environ["AZURE_CLIENT_SECRET"],
        }}).encode(),
    )))["access_token"]
    while state["deployment"]["resources"]:
        one = state["deployment"]["resources"].pop()
        if one.get("custom"):
            try:
                ask(urllib.request.Request(
                    f"{{base}}{{one['id']}}?api-version=2024-10-01", method="DELETE",
                    headers={{"Authorization": f"Bearer {{token}}"}},
                ))
            except urllib.error.HTTPError as error:
                # As azure-native does, which takes it for deleted.
                if error.code != 404:
                    raise
        (here / "state.json").write_text(json.dumps(state))
"""


class Stack:
    """A separate platform with a repository, and a stand-in for Pulumi that has its state."""

    def __init__(self, live, folder):
        self.live, self.outputs, self.repository = live, live.outputs, folder
        self.state = folder / "state"
        self.state.mkdir()
        group = live.group
        vault = self.outputs.vault_uri.removeprefix("https://").split(".")[0]
        ids = {
            "azure-native:resources:ResourceGroup": group,
            "azure-native:keyvault:Vault": f"{group}/providers/Microsoft.KeyVault/vaults/{vault}",
        }
        for store in {s.account: s for s in (self.outputs.datastores.prepared,
                                             self.outputs.datastores.results)}:  # fmt: skip
            kind = f"azure-native:storage:StorageAccount#{store}"
            ids[kind] = f"{group}/providers/Microsoft.Storage/storageAccounts/{store}"
        urn = "urn:pulumi:dev::ml::"
        self.resources = [
            {"urn": f"{urn}pulumi:pulumi:Stack::ml-dev", "type": "pulumi:pulumi:Stack"}
        ]
        self.resources += [
            {"urn": f"{urn}{kind}::{kind[-5:]}", "type": kind, "id": one, "custom": True}
            for kind, one in ids.items()
        ]
        self.write()

    def write(self, more=()):
        state = {"version": 3, "deployment": {"resources": self.resources, **dict(more)}}
        (self.state / "state.json").write_text(json.dumps(state))

    @property
    def asked(self):
        """Return Pulumi's commands, except those that read the state."""
        lines = (self.state / "asked").read_text().splitlines()
        return [line for line in lines if not line.startswith("stack export")]

    def tear_down(self, options=YES, *, outputs="own", stack=None):
        known = self.outputs if outputs == "own" else outputs
        return teardown.run(options, known, as_json=True, stack=stack, repository=self.repository)

    def remove(self):
        """Free the accounts' names: a new name would start the blob server again."""
        manager = connect(self.outputs).manager
        with suppress(MissingError):
            manager.delete(self.live.group)
        while AzureResources(manager, self.outputs).has_group():
            threading.Event().wait(0.05)

    def deletions(self):
        return [
            (r.method, r.path.rpartition("/")[2])
            for r in self.live.azure.requests
            if r.method == "DELETE" or r.path.endswith(("/cancel", "/purge"))
        ]


def put_pulumi(folder, monkeypatch):
    """Put the stand-in for Pulumi on the path."""
    binaries = folder / "bin"
    binaries.mkdir()
    program = binaries / "pulumi"
    program.write_text(textwrap.dedent(PULUMI).format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def stack(live, tmp_path, monkeypatch, request):
    tag = f"t{zlib.crc32(request.node.name.encode()):08x}"
    yield from _made(live, tmp_path, monkeypatch, f"{tag}-rg", f"{tag}-ml", f"{tag}-kv")


@pytest.fixture
def half(live, tmp_path, monkeypatch, request):
    """A stack whose deployment never completed, so its names follow from its settings only."""
    tag = f"t{zlib.crc32(request.node.name.encode()):08x}"
    config = {
        "prefix": tag,
        "location": live.outputs.region,
        "subscription": {"id": live.outputs.subscription_id, "tenant": live.outputs.tenant_id},
        "tags": {"owner": "o", "cost-center": "c"},
        "budget": {"emails": ["o@example.com"], "amount": 9, "start": "2026-12-01"},
        "clusters": {"gpu": {"max_nodes": 2}},
    }
    keyed = {f"{stack_config.project()}:{key}": one for key, one in config.items()}
    needs = prerequisites.read(keyed, "dev")
    vault = next(one.name for one in needs.names if one.resource == "vault")
    for made in _made(live, tmp_path, monkeypatch, needs.resource_group, needs.workspace, vault):
        told = {key: {"objectValue" if isinstance(one, dict) else "value": one}
                for key, one in keyed.items()}  # fmt: skip
        (made.state / "config.json").write_text(json.dumps(told))
        yield made


def _made(live, tmp_path, monkeypatch, group, workspace, vault):
    base = platform(max_nodes=2)
    stores = {
        role: replace(getattr(base.datastores, role), account=f"teardown{role[:4]}")
        for role in ("raw", "prepared", "results")
    }
    described = replace(
        base,
        resource_group=group,
        workspace=workspace,
        vault_uri=f"https://{vault}.vault.azure.net/",
        datastores=replace(base.datastores, **{**stores, "raw": replace(
            stores["raw"], account=stores["prepared"].account)}),
    )  # fmt: skip
    put_pulumi(tmp_path, monkeypatch)
    made = Stack(declare(live.azure, tmp_path, described), tmp_path)
    live.azure.admin.forget_requests()
    yield made
    made.remove()
