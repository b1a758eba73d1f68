"""A teardown: its order, what stops it, and how it continues after an interruption."""

import io
import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import INTERRUPTED, ConfigError, UserError
from jobs.azure.job_records import Jobs
from jobs.azure.workspace import connect
from jobs.commands.teardown import ProtectedError, UnknownError
from jobs.errors import (
    NotDeployedError,
    PendingOperationsError,
    PlatformReadError,
    UnreadableStateError,
)
from jobs.extras.serving import deploy
from jobs.extras.serving.deploy import DeployOptions
from jobs.pulumi import teardown_steps
from jobs.pulumi.state import pending_creations, resources
from jobs.pulumi.teardown_record import TeardownRecord
from jobs.pulumi.teardown_steps import Teardown
from rehearsal.resources.workspaces import DELETED
from tests.jobs.support.runs import answer, declare_job
from tests.jobs.support.serving import register_model
from tests.jobs.support.torn_down import YES

ARM = "2024-10-01"


def test_everything_goes_in_the_order_that_azure_needs(stack, capsys):
    declare_job(stack.live, "long-r1", tags={}, command="sleep 60")
    assert stack.tear_down() == 0
    done = answer(capsys)
    assert done["left"] == []
    assert [text.split()[0] for text in done["done"]] == [
        "cancelled", "deleted", "purged", "destroyed", "purged",
    ]  # fmt: skip
    steps = [name for _, name in stack.deletions()]
    clusters = {stack.outputs.clusters["gpu"].name, stack.outputs.clusters["preparation"].name}
    order = [
        steps.index("cancel"),
        min(steps.index(name) for name in clusters),
        steps.index(stack.outputs.workspace),
        steps.index(stack.outputs.resource_group),
        steps.index("purge"),
    ]
    assert order == sorted(order)
    assert stack.asked == ["destroy --refresh --yes --non-interactive --stack dev"]


def test_a_deleted_log_workspace_is_named_as_long_as_azure_can_recover_it(stack, capsys):
    logs = f"{stack.live.group}/providers/Microsoft.OperationalInsights/workspaces/hvd-dev-log"
    stack.live.azure.put(logs, "", {"location": "westeurope"})
    kind = "azure-native:operationalinsights:Workspace"
    urn = f"urn:pulumi:dev::p::{kind}::logs"
    stack.resources.append({"urn": urn, "type": kind, "id": logs, "custom": True})
    stack.write()
    assert stack.tear_down() == 0
    assert "log workspace hvd-dev-log: is deleted, but Azure keeps" in capsys.readouterr().err


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
    with pytest.raises(UserError, match="pass --yes"):
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


def test_a_stack_that_was_deployed_in_part_is_torn_down_by_the_names_of_its_settings(half, capsys):
    assert half.tear_down(outputs=None, stack="dev") == 0
    done = answer(capsys)
    assert done["left"] == []
    steps = [name for _, name in half.deletions()]
    assert half.outputs.workspace in steps
    assert "purge" in steps
    half.live.azure.admin.forget_requests()
    assert half.tear_down(outputs=None, stack="dev") == 0
    assert half.live.azure.requests == []


def test_the_teardown_of_a_stack_that_was_deployed_in_part_goes_on(half, capsys, monkeypatch):
    purge = Teardown._purge_vault
    monkeypatch.setattr(Teardown, "_purge_vault", lambda _: os.kill(os.getpid(), signal.SIGINT))
    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert half.tear_down(outputs=None, stack="dev") == INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, was)
    monkeypatch.setattr(Teardown, "_purge_vault", purge)
    capsys.readouterr()
    # Nothing is in the state any more.
    assert half.tear_down(outputs=None, stack="dev") == 0
    assert [text.split()[:2] for text in answer(capsys)["done"]] == [["purged", "vault"]]


IN_USE = (
    'Status=400 Code="InUseSubnetCannotBeDeleted" Message="Subnet snet is in use by /subscriptions/'
    's/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/card and cannot be deleted."'
)


def test_a_subnet_that_a_card_still_uses_is_waited_for(stack, capsys, monkeypatch):
    monkeypatch.setattr(teardown_steps, "FIRST_PAUSE", 0.05)
    (stack.state / "refused").write_text(json.dumps([IN_USE, 2]))
    assert stack.tear_down() == 0
    assert len(stack.asked) == 3
    said = capsys.readouterr().err
    assert "networkInterfaces/card" in said
    assert "continues in" in said


def test_a_subnet_that_stays_in_use_ends_the_teardown_with_its_user(stack, monkeypatch):
    monkeypatch.setattr(teardown_steps, "FIRST_PAUSE", 0.05)
    (stack.state / "refused").write_text(json.dumps([IN_USE, 99]))
    with pytest.raises(UserError, match=r"(?s)refused this for 0\.01 min.*networkInterfaces/card"):
        stack.tear_down(replace(YES, wait_minutes=0.01))
    (stack.state / "refused").write_text(json.dumps(['Code="ScopeLocked" Message="No."', 99]))
    asked = len(stack.asked)
    with pytest.raises(UserError, match="a lock of the group"):
        stack.tear_down()
    assert len(stack.asked) == asked + 1


def test_a_damaged_state_is_repaired_by_the_command_that_is_named(stack):
    (stack.state / "refused").write_text(json.dumps(["snapshot integrity failure", 99]))
    with pytest.raises(UserError, match="pulumi state repair --stack dev"):
        stack.tear_down()


def test_with_a_state_that_cannot_be_read_only_what_costs_is_deleted(stack, capsys):
    declare_job(stack.live, "damaged-r1", tags={}, command="sleep 60")
    (stack.state / "damaged").touch()
    with pytest.raises(UserError, match="stdin is not a terminal"):
        stack.tear_down(replace(YES, yes=False))
    with pytest.raises(UnreadableStateError, match="pulumi state repair --stack dev"):
        stack.tear_down(replace(YES, cluster="gpu"))
    assert stack.deletions() == []
    assert stack.tear_down() == 1
    said = capsys.readouterr()
    done = json.loads(said.out)
    assert [text.split()[0] for text in done["done"]] == ["cancelled", "deleted"]
    assert "cannot be read: " in done["left"][-1]["why"]
    assert done["left"][-1]["what"] == "Pulumi's state"
    assert any("workspaces" in one["what"] for one in done["left"])
    assert "pulumi state repair --stack dev" in said.err
    assert "data, models and everything else stay" in said.err
    assert stack.asked == []
    (stack.state / "damaged").unlink()
    assert stack.tear_down() == 0
    assert answer(capsys)["left"] == []


def test_a_damaged_state_without_outputs_is_told_by_the_names_of_the_settings(half, capsys):
    (half.state / "damaged").touch()
    assert half.tear_down(outputs=None, stack="dev") == 1
    assert [one["what"] for one in answer(capsys)["left"]][-1] == "Pulumi's state"
    steps = [name for _, name in half.deletions()]
    assert half.outputs.clusters["gpu"].name in steps
    assert half.outputs.workspace not in steps


def test_what_others_have_put_into_the_own_group_goes_only_if_it_is_named(stack, monkeypatch):
    account = f"{stack.live.group}/providers/Microsoft.Compute/disks/by-hand"
    stack.live.azure.put(account, ARM, {"location": "westeurope"})
    card = f"{stack.live.group}/providers/Microsoft.Network/networkInterfaces/x.nic.1"
    stack.live.azure.put(card, ARM, {"location": "westeurope", "properties": {}})
    stack.live.azure.admin.forget_requests()
    with pytest.raises(UserError, match=r"has Microsoft.Compute/disks by-hand, .*--also by-hand"):
        stack.tear_down()
    assert stack.deletions() == []
    terminal = io.StringIO("no\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(UserError, match="not confirmed"):
        stack.tear_down(replace(YES, yes=False))
    assert stack.tear_down(replace(YES, also=("by-hand",))) == 0


def test_machines_that_others_attached_are_detached_and_stay(stack, capsys, monkeypatch):
    live = stack.live
    other = f"/subscriptions/{stack.outputs.subscription_id}/resourceGroups/theirs"
    machine = f"{other}/providers/Microsoft.Compute/virtualMachines/attached"
    for path in (other, machine):
        live.azure.put(path, ARM, {"location": "westeurope"})
    attached = {"computeType": "VirtualMachine", "resourceId": machine, "properties": {}}
    path = f"{live.workspace}/computes/their-machine"
    live.azure.put(path, ARM, {"location": "westeurope", "properties": attached})
    terminal = io.StringIO("no\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(UserError, match="not confirmed"):
        stack.tear_down(replace(YES, yes=False))
    assert "VirtualMachine their-machine will be detached" in capsys.readouterr().err
    assert stack.tear_down() == 0
    done = answer(capsys)["done"]
    assert done[:2] == ["detached VirtualMachine their-machine", "deleted 4 clusters"]
    assert live.azure.resources.get(machine)
    live.azure.resources.discard(machine)
    live.azure.resources.discard(other)


@pytest.mark.long
def test_the_workspaces_diagnostic_settings_are_deleted_before_it(stack):
    setting = f"{stack.live.workspace}/providers/Microsoft.Insights/diagnosticSettings/diag"
    stack.live.azure.put(setting, "2021-05-01-preview", {"properties": {"logs": []}})
    kind = "azure-native:monitor:DiagnosticSetting"
    urn = f"urn:pulumi:dev::p::{kind}::diag"
    stack.resources.append({"urn": urn, "type": kind, "id": setting, "custom": True})
    stack.write()
    assert stack.tear_down() == 0
    steps = [name for _, name in stack.deletions()]
    assert steps.index("diag") < steps.index(stack.outputs.workspace)


def test_diagnostic_settings_of_others_are_deleted_with_what_they_belong_to(stack, capsys):
    kind = "azure-native:monitor:DiagnosticSetting"
    account = stack.resources[-1]["id"]
    for place in (stack.live.workspace, account):
        for name in ("declared", "of-others"):
            setting = f"{place}/providers/Microsoft.Insights/diagnosticSettings/{name}"
            stack.live.azure.put(setting, "2021-05-01-preview", {"properties": {"logs": []}})
            if name == "declared" and place == account:
                urn = f"urn:pulumi:dev::p::{kind}::{name}"
                stack.resources.append({"urn": urn, "type": kind, "id": setting, "custom": True})
    stack.write()
    assert stack.tear_down() == 0
    done = [one for one in answer(capsys)["done"] if "diagnostic" in one]
    places = sorted((stack.live.workspace.rpartition("/")[2], account.rpartition("/")[2]))
    assert sorted(done) == sorted(
        f"deleted diagnostic setting {name} of {place}, which the stack has not declared"
        for place in places
        for name in ("of-others", "declared")
        if (place, name) != (account.rpartition("/")[2], "declared")
    )
    assert stack.live.azure.resources.below(stack.live.group, "/diagnosticSettings/") == []
    paths = [request.path for request in stack.live.azure.requests]
    asked = [path for path in paths if "diagnosticsettings" in path.lower()]
    assert asked
    # As Azure's specification spells it.
    assert all("/providers/Microsoft.Insights/diagnosticSettings" in path for path in asked)


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


@pytest.mark.parametrize("refused", ["GET .*/deletedVaults", "POST .*/deletedVaults/"])
def test_who_has_roles_on_the_group_only_is_told_who_frees_the_names(stack, capsys, refused):
    name = stack.outputs.vault_uri.removeprefix("https://").split(".")[0]
    azure = stack.live.azure
    azure.admin.forbid(azure.environment["AZURE_CLIENT_ID"], refused)
    assert stack.tear_down() == 1
    (one,) = answer(capsys)["left"]
    assert one["what"] == f"deleted vault {name}"
    assert f"az keyvault purge --name {name}" in one["why"]
    azure.admin.clear_faults()
    assert stack.tear_down(outputs=None) == 0


def test_what_someone_else_put_into_the_group_is_told(stack, capsys):
    kept = [one for one in stack.resources if "ResourceGroup" not in one["type"]]
    stack.resources = kept
    stack.write()
    disk = f"{stack.live.group}/providers/Microsoft.Compute/disks/by-hand"
    stack.live.azure.put(disk, ARM, {"location": "westeurope"})
    assert stack.tear_down() == 1
    (one,) = answer(capsys)["left"]
    assert one == {"what": "Microsoft.Compute/disks by-hand", "why": "was not deleted"}


def test_a_group_that_existed_before_stays_with_what_others_have_in_it(stack, capsys):
    azure, group = stack.live.azure, stack.live.group
    stack.resources = [one for one in stack.resources if "ResourceGroup" not in one["type"]]
    stack.write()
    azure.put(group, ARM, {"location": "westeurope", "tags": {"stack": "landing-zone"}})
    theirs = f"{group}/providers/Microsoft.Compute/disks/theirs"
    azure.put(theirs, ARM, {"location": "westeurope"})
    own = {"pulumi": f"{group}/providers/Microsoft.Compute/disks/own"}
    # The endpoint was deleted in the portal, which keeps its alerts.
    own["jobs"] = f"{group}/providers/Microsoft.Insights/metricAlerts/digits-failures"
    for tool, path in own.items():
        tags = {"stack": stack.outputs.stack, "managed-by": tool}
        azure.put(path, ARM, {"location": "westeurope", "tags": tags})
    assert stack.tear_down() == 1
    assert {one["what"] for one in answer(capsys)["left"]} == {
        "Microsoft.Compute/disks own",
        "Microsoft.Insights/metricAlerts digits-failures",
    }
    assert azure.resources.get(theirs)
    for path in own.values():
        azure.resources.discard(path)
    assert stack.tear_down() == 0
    assert azure.resources.get(group)


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
    assert "interrupted; done: deleted 4 clusters" in said
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


def test_an_endpoint_that_was_left_is_deleted_first(stack, capsys):
    live = stack.live
    deployed = DeployOptions(
        model=register_model(live, "left", "1"), endpoint="left", poll_seconds=0.05
    )
    assert deploy.run(deployed, live.outputs, as_json=True) == 0
    capsys.readouterr()
    assert stack.tear_down() == 0
    done = answer(capsys)
    assert done["left"] == []
    assert done["done"][0] == "deleted 1 endpoint"
    order = [name for _, name in stack.deletions()]
    assert order.index("left") < order.index(stack.outputs.workspace)
