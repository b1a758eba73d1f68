import io
import json
import os
import shutil
import signal
import sys
import textwrap
import threading
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import INTERRUPTED, ConfigError, UserError
from jobs.azure.job_records import Jobs
from jobs.azure.workspace import connect
from jobs.commands import teardown
from jobs.commands.teardown import ProtectedError, TeardownOptions, UnknownError
from jobs.errors import MissingError, NotDeployedError, PendingOperationsError, PlatformReadError
from jobs.pulumi.leftover_resources import AzureResources
from jobs.pulumi.state import pending_creations, resources
from jobs.pulumi.teardown_record import TeardownRecord
from jobs.pulumi.teardown_steps import Teardown
from rehearsal.resources.workspaces import DELETED
from tests.jobs.support.live import declare
from tests.jobs.support.platform import platform
from tests.jobs.support.runs import answer, declare_job

ARM = "2024-10-01"
YES = TeardownOptions(yes=True, wait_minutes=0.5, poll_seconds=0.05)

PULUMI = """\
    #!{python}
    # Stands for Pulumi: remembers what it was asked, and deletes what its state names.
    import json, os, pathlib, ssl, sys, time, urllib.parse, urllib.request

    here = pathlib.Path("state")
    with (here / "asked").open("a") as file:
        file.write(" ".join(sys.argv[1:]) + chr(10))
    state = json.loads((here / "state.json").read_text())
    if (here / "elsewhere").exists():
        print("error: no stack named 'dev' found", file=sys.stderr)
        sys.exit(255)
    if sys.argv[1:3] == ["stack", "export"]:
        print(json.dumps(state))
        sys.exit()
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
            ask(urllib.request.Request(
                f"{{base}}{{one['id']}}?api-version=2024-10-01", method="DELETE",
                headers={{"Authorization": f"Bearer {{token}}"}},
            ))
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


@pytest.fixture
def stack(live, tmp_path, monkeypatch, request):
    tag = f"t{zlib.crc32(request.node.name.encode()):08x}"
    base = platform(max_nodes=2)
    stores = {
        role: replace(getattr(base.datastores, role), account=f"teardown{role[:4]}")
        for role in ("raw", "prepared", "results")
    }
    described = replace(
        base,
        resource_group=f"{tag}-rg",
        workspace=f"{tag}-ml",
        vault_uri=f"https://{tag}-kv.vault.azure.net/",
        datastores=replace(base.datastores, **{**stores, "raw": replace(
            stores["raw"], account=stores["prepared"].account)}),
    )  # fmt: skip
    binaries = tmp_path / "bin"
    binaries.mkdir()
    program = binaries / "pulumi"
    program.write_text(textwrap.dedent(PULUMI).format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    made = Stack(declare(live.azure, tmp_path, described), tmp_path)
    live.azure.admin.forget_requests()
    yield made
    made.remove()


def test_everything_goes_in_the_order_that_azure_needs(stack, capsys):
    declare_job(stack.live, "long-r1", tags={}, command="sleep 60")
    assert stack.tear_down() == 0
    done = answer(capsys)
    assert done["left"] == []
    assert [text.split()[0] for text in done["done"]] == [
        "cancelled", "deleted", "purged", "destroyed", "purged",
    ]  # fmt: skip
    steps = [name for _, name in stack.deletions()]
    clusters = {stack.outputs.clusters.gpu.name, stack.outputs.clusters.preparation.name}
    order = [
        steps.index("cancel"),
        min(steps.index(name) for name in clusters),
        steps.index(stack.outputs.workspace),
        steps.index(stack.outputs.resource_group),
        steps.index("purge"),
    ]
    assert order == sorted(order)
    assert stack.asked == ["destroy --refresh --yes --non-interactive --stack dev"]


def test_protected_resources_stop_it_before_anything_is_deleted(stack):
    stack.resources[2]["protect"] = True
    stack.write()
    with pytest.raises(ProtectedError, match="pulumi state unprotect --all --stack dev"):
        stack.tear_down()
    assert stack.deletions() == []
    assert stack.asked == []


@pytest.mark.parametrize("begun", [False, True])
def test_a_live_platform_that_pulumi_does_not_know_is_refused(stack, begun):
    # Also after an earlier teardown of the same names, which was left with a protected vault.
    if begun:
        TeardownRecord(stack.repository, "dev").write(stack.outputs)
    (stack.state / "elsewhere").touch()
    with pytest.raises(UnknownError, match=r"workspace .*-ml exists, but is not in Pulumi's state"):
        stack.tear_down()
    assert stack.deletions() == []


def test_a_state_of_other_resources_does_not_make_a_platform_known(stack):
    other = "/subscriptions/x/resourceGroups/other/providers/Microsoft.Storage/storageAccounts/a"
    kind = "azure-native:storage:StorageAccount"
    one = {"urn": f"urn:pulumi:dev::ml::{kind}::a", "type": kind, "id": other, "custom": True}
    stack.resources = [one]
    stack.write()
    with pytest.raises(UnknownError, match="nothing was deleted"):
        stack.tear_down()
    assert stack.deletions() == []


def test_a_group_that_pulumi_does_not_know_is_deleted_only_if_begun_here(stack):
    connect(stack.outputs).manager.delete(stack.live.workspace)
    (stack.state / "elsewhere").touch()
    stack.live.azure.admin.forget_requests()
    with pytest.raises(UnknownError, match=r"resource group .*-rg exists"):
        stack.tear_down()
    assert stack.deletions() == []
    record = TeardownRecord(stack.repository, "dev")
    record.write(replace(stack.outputs, workspace="other-ml"))
    with pytest.raises(UnknownError):
        stack.tear_down()
    record.write(stack.outputs)
    assert stack.tear_down() == 1
    assert ("DELETE", stack.outputs.workspace) in stack.deletions()


def test_a_job_that_ends_before_it_is_cancelled_stops_nothing(stack, capsys, monkeypatch):
    declare_job(stack.live, "quick-r1", tags={}, command="true")
    running = Jobs.running
    while connect(stack.outputs).jobs.running():
        threading.Event().wait(0.05)
    late = iter([["quick-r1"]])
    monkeypatch.setattr(Jobs, "running", lambda jobs: next(late, None) or running(jobs))
    assert stack.tear_down() == 0
    assert any(path == "cancel" for _, path in stack.deletions())


def test_outputs_of_another_platform_than_pulumis_are_refused(stack):
    other = replace(stack.outputs, resource_group="other-rg")
    with pytest.raises(
        UserError, match=r"outputs belong to .*other-rg, but .* nothing was deleted"
    ):
        stack.tear_down(outputs=other)
    with pytest.raises(ConfigError, match="'prod', but the outputs are those of 'dev'"):
        stack.tear_down(stack="prod")
    assert stack.deletions() == []


def test_nobody_who_could_be_asked_means_no(stack, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("dev\n"))
    with pytest.raises(UserError, match="pass --yes True"):
        stack.tear_down(replace(YES, yes=False))
    assert stack.deletions() == []


@pytest.mark.parametrize(("typed", "goes"), [("dev\n", True), ("yes\n", False), ("", False)])
def test_a_person_types_the_name_of_the_stack(stack, monkeypatch, typed, goes):
    terminal = io.StringIO(typed)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    if goes:
        assert stack.tear_down(replace(YES, yes=False)) == 0
    else:
        with pytest.raises(UserError, match="not confirmed"):
            stack.tear_down(replace(YES, yes=False))
        assert stack.deletions() == []


def test_after_pulumi_failed_the_same_command_goes_on(stack, capsys):
    (stack.state / "fails").touch()
    with pytest.raises(UserError, match="pulumi destroy: failed with exit status 255"):
        stack.tear_down()
    (stack.state / "fails").unlink()
    stack.live.azure.admin.forget_requests()
    assert stack.tear_down() == 0
    assert answer(capsys)["done"][0].startswith("destroyed")


def test_what_pulumi_has_forgotten_is_still_purged(stack, capsys, monkeypatch):
    purge = Teardown._purge_vault

    def broken(self):
        raise UserError("cut off")

    monkeypatch.setattr(Teardown, "_purge_vault", broken)
    with pytest.raises(UserError, match="cut off"):
        stack.tear_down()
    monkeypatch.setattr(Teardown, "_purge_vault", purge)
    capsys.readouterr()
    # The stack has no outputs any more.
    assert stack.tear_down(outputs=None, stack="dev") == 0
    done = answer(capsys)
    assert [text.split()[:2] for text in done["done"]] == [["purged", "vault"]]


def test_a_second_teardown_is_harmless(stack, capsys):
    assert stack.tear_down() == 0
    answer(capsys)
    stack.live.azure.admin.forget_requests()
    assert stack.tear_down(outputs=None, stack="team/ml/dev") == 0
    assert answer(capsys) == {"stack": "dev", "done": [], "left": []}
    assert stack.live.azure.requests == []


def test_a_stack_that_does_not_exist_is_an_error(stack):
    (stack.state / "elsewhere").touch()
    with pytest.raises(NotDeployedError, match="there is no stack dev"):
        stack.tear_down(outputs=None, stack="dev")


def test_pending_operations_are_not_taken_for_nothing(stack):
    urn = stack.resources.pop()["urn"]
    stack.resources = []
    stack.write({"pending_operations": [{"type": "creating", "resource": {"urn": urn}}]})
    with pytest.raises(PendingOperationsError, match="or was killed while creating it"):
        stack.tear_down(outputs=None, stack="dev")
    assert stack.deletions() == []


def test_a_stack_that_was_deployed_in_part_is_not_taken_for_nothing(stack):
    with pytest.raises(PlatformReadError, match="its deployment never completed"):
        stack.tear_down(outputs=None, stack="dev")
    assert stack.deletions() == []


def test_what_is_unfinished_is_kept_where_the_environment_says(stack, tmp_path, monkeypatch):
    folder = tmp_path / "records" / "of-mine"
    monkeypatch.setenv("JOBS_TEARDOWN_FOLDER", str(folder))
    (stack.state / "fails").touch()
    with pytest.raises(UserError, match="pulumi destroy"):
        stack.tear_down()
    assert [file.name for file in folder.iterdir()] == ["dev.json"]
    assert not (stack.repository / ".teardown").exists()
    (stack.state / "fails").unlink()
    assert stack.tear_down(outputs=None, stack="dev") == 0
    assert list(folder.iterdir()) == []


def test_a_record_that_cannot_be_written_leaves_the_one_of_before(stack, monkeypatch):
    record = TeardownRecord(stack.repository, "dev")
    record.write(stack.outputs)

    def full(path, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        record.write(replace(stack.outputs, workspace="other-ml"))
    assert record.read() == stack.outputs
    assert [file.name for file in (stack.repository / ".teardown").iterdir()] == ["dev.json"]


def clusters(stack):
    asked = connect(stack.outputs).manager.items("computes")
    return {one["name"] for one in asked}


def knows_clusters(stack):
    """Put the clusters into Pulumi's state, as after `up`."""
    kind = "azure-native:machinelearningservices:Compute"
    for role in ("gpu", "preparation", "build"):
        id_ = f"{stack.live.workspace}/computes/{getattr(stack.outputs.clusters, role).name}"
        urn = f"urn:pulumi:dev::ml::{kind}::cluster-{role}"
        stack.resources.append({"urn": urn, "type": kind, "id": id_, "custom": True})
    stack.write()


@pytest.mark.parametrize("given", ["preparation", "name", "NAME"])
def test_one_cluster_is_deleted_and_the_rest_stays(stack, capsys, given):
    knows_clusters(stack)
    before, name = clusters(stack), stack.outputs.clusters.preparation.name
    called = {"name": name, "NAME": name.upper()}.get(given, given)
    assert stack.tear_down(replace(YES, cluster=called)) == 0
    assert answer(capsys) == {"stack": "dev", "cluster": name, "done": [f"deleted {name}"]}
    assert clusters(stack) == before - {name}
    assert stack.deletions() == [("DELETE", name)]
    assert not (stack.state / "asked").exists() or stack.asked == []
    # Once more, as after an interruption.
    assert stack.tear_down(replace(YES, cluster=called)) == 0
    assert answer(capsys)["done"] == []


def test_a_cluster_with_jobs_is_left_alone_and_they_are_named(stack):
    knows_clusters(stack)
    declare_job(stack.live, "long-r1", tags={}, command="sleep 60")
    (on,) = connect(stack.outputs).manager.items("jobs")
    name = on["properties"]["computeId"].rpartition("/")[2]
    with pytest.raises(UserError, match=r"1 jobs on it have not ended \(long-r1\), so nothing was"):
        stack.tear_down(replace(YES, cluster=name))
    assert stack.deletions() == []
    other = next(iter(clusters(stack) - {name}))
    assert stack.tear_down(replace(YES, cluster=other)) == 0


def test_a_cluster_that_nobody_would_make_again_is_left_alone(stack):
    with pytest.raises(UserError, match="is not in Pulumi's state of stack dev"):
        stack.tear_down(replace(YES, cluster=stack.outputs.clusters.gpu.name))
    knows_clusters(stack)
    stack.resources[-1]["protect"] = True
    stack.write()
    name = stack.resources[-1]["id"].rpartition("/")[2]
    with pytest.raises(UserError, match="is protected, so nothing was deleted; `pulumi state unp"):
        stack.tear_down(replace(YES, cluster=name))
    assert stack.deletions() == []


def test_a_cluster_that_is_not_there_is_told_with_those_that_are(stack):
    knows_clusters(stack)
    name = stack.outputs.clusters.gpu.name
    with pytest.raises(UserError, match=rf"'gqu' is not a cluster of .*; it has {name} \(gpu\), "):
        stack.tear_down(replace(YES, cluster="gqu"))


def test_the_cluster_that_is_there_is_meant_and_not_that_of_a_failed_up(stack, capsys):
    knows_clusters(stack)
    there = stack.outputs.clusters.gpu
    planned = replace(stack.outputs.clusters, gpu=replace(there, name="gpu-new"))
    outputs = replace(stack.outputs, clusters=planned)
    assert stack.tear_down(replace(YES, cluster="gpu"), outputs=outputs) == 0
    assert answer(capsys)["cluster"] == there.name


def test_a_stack_without_outputs_has_no_clusters(stack):
    with pytest.raises(NotDeployedError, match="has no outputs"):
        stack.tear_down(replace(YES, cluster="gpu"), outputs=None, stack="dev")


def test_a_person_types_the_name_of_the_cluster(stack, monkeypatch):
    knows_clusters(stack)
    terminal = io.StringIO("dev\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(UserError, match="not confirmed"):
        stack.tear_down(replace(YES, yes=False, cluster="build"))
    assert stack.deletions() == []


def test_a_workspace_that_is_deleted_already_is_purged(stack, capsys):
    connect(stack.outputs).manager.delete(stack.live.workspace)
    deleted = stack.live.azure.store
    assert deleted.get(DELETED, stack.live.workspace) is not None
    assert stack.tear_down() == 0
    assert answer(capsys)["left"] == []
    assert deleted.get(DELETED, stack.live.workspace) is None


def test_a_vault_with_purge_protection_is_left_and_told(stack, capsys):
    out, group = stack.outputs, stack.live.group
    name = out.vault_uri.removeprefix("https://").split(".")[0]
    stack.live.azure.put(f"{group}/providers/Microsoft.KeyVault/vaults/{name}", ARM, {
        "location": out.region,
        "properties": {"enablePurgeProtection": True, "enableSoftDelete": True}})  # fmt: skip
    assert stack.tear_down() == 1
    (one,) = answer(capsys)["left"]
    assert one["what"] == f"deleted vault {name}"
    assert "purge protection" in one["why"]
    assert not [step for step in stack.deletions() if step[1] == "purge"]


def test_what_someone_else_put_into_the_group_is_told(stack, capsys):
    kept = [one for one in stack.resources if "ResourceGroup" not in one["type"]]
    stack.resources = kept
    stack.write()
    disk = f"{stack.live.group}/providers/Microsoft.Compute/disks/by-hand"
    stack.live.azure.put(disk, ARM, {"location": "westeurope"})
    assert stack.tear_down() == 1
    (one,) = answer(capsys)["left"]
    assert one == {"what": "Microsoft.Compute/disks by-hand", "why": "was not deleted"}


def test_ctrl_c_says_what_is_done_and_how_to_go_on(stack, capsys, monkeypatch):
    def interrupt(self):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(10)

    monkeypatch.setattr(Teardown, "_purge_workspace", interrupt)
    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert stack.tear_down() == INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, was)
    said = capsys.readouterr().err
    assert "interrupted; done: deleted 3 clusters" in said
    assert "run the same command again" in said


def test_ctrl_c_lets_pulumi_end_what_it_has_begun(stack, capsys):
    (stack.state / "slow").touch()

    def interrupt():
        while not (stack.state / "begun").exists():
            threading.Event().wait(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Thread(target=interrupt)
    other.start()
    try:
        assert stack.tear_down() == INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, was)
        other.join()
    state = json.loads((stack.state / "state.json").read_text())
    assert state["deployment"]["resources"] == []
    capsys.readouterr()
    assert stack.tear_down(outputs=None, stack="dev") == 0
    assert [text.split()[0] for text in answer(capsys)["done"]] == ["purged"]


def test_a_missing_pulumi_is_told(stack, monkeypatch):
    shutil.rmtree(stack.repository / "bin")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PlatformReadError, match="pulumi: not found on the PATH"):
        stack.tear_down()


@pytest.mark.parametrize("state", [{}, {"deployment": None}, {"deployment": {"resources": None}}])
def test_a_stack_that_was_never_deployed_has_no_resources(state):
    assert resources(state) == []
    assert pending_creations(state) == []


def test_what_was_being_made_is_known_by_name():
    urn = "urn:pulumi:dev::ml::platform:index:Access$azure-native:resources:ResourceGroup::group"
    operations = [
        {"type": "creating", "resource": {"urn": urn}},
        {"type": "deleting", "resource": {"urn": f"{urn}-2"}},
    ]
    state = {"deployment": {"resources": [], "pending_operations": operations}}
    assert pending_creations(state) == ["group"]
