"""Pulumi deploys, after a check of its prerequisites."""

import json
from types import SimpleNamespace

import pytest

from common.errors import INTERRUPTED, UserError
from infra.outputs import to_dict
from jobs.cli import main
from jobs.errors import LockedError, NotDeployedError, PlatformReadError
from tests.jobs.support.platform import platform


@pytest.fixture(autouse=True)
def azure_has_all(monkeypatch):
    """The questions to Azure before have tests of their own:
    tests/jobs/pulumi/test_prerequisites.py"""
    monkeypatch.setattr("jobs.commands.up.require_prerequisites", lambda *_: None)


EXPORTED = {"out": json.dumps({"deployment": {"resources": []}})}


def test_up_deploys_and_says_what_there_is_now(pulumi, capfd):
    outputs = platform()
    asked = pulumi(stack_export=EXPORTED, up={"out": "+ 90 to create"},
                   stack_output={"out": json.dumps(to_dict(outputs))})  # fmt: skip
    assert main(["up", "--stack", "dev", "--yes", "True"]) == 0
    assert asked()[1] == "up --yes --non-interactive --policy-pack infra/policies --stack dev"
    out, _ = capfd.readouterr()
    assert "+ 90 to create" in out
    assert f"workspace {outputs.workspace}" in out
    assert "python -m jobs preflight --stack dev" in out


def test_up_lets_pulumi_ask_unless_told_otherwise(pulumi):
    asked = pulumi(stack_export=EXPORTED, stack_output={"out": json.dumps(to_dict(platform()))})
    assert main(["up", "--stack", "prod"]) == 0
    assert asked()[1] == "up --policy-pack infra/policies --stack prod"


def test_a_deployment_without_the_rules_leaves_its_reason_in_the_history(pulumi):
    asked = pulumi(stack_export=EXPORTED, stack_output={"out": json.dumps(to_dict(platform()))})
    assert main(["up", "--yes", "True", "--without-rules", "an outage"]) == 0
    assert asked()[1].endswith("--message without the security rules: an outage --stack dev")


@pytest.mark.parametrize("command", ["up", "preview"])
@pytest.mark.parametrize("reason", ["", "  ", "\n", "-", "1.2", "x"])
def test_a_reason_without_words_is_refused(pulumi, command, reason, tmp_path, capsys):
    pulumi(stack_export=EXPORTED)
    assert main([command, "--without-rules", reason]) == 2
    assert "--without-rules" in capsys.readouterr().err
    assert not (tmp_path / "asked").exists()


def test_up_may_compare_with_azure_first(pulumi):
    asked = pulumi(stack_export=EXPORTED, stack_output={"out": json.dumps(to_dict(platform()))})
    assert main(["up", "--refresh", "True", "--yes", "True"]) == 0
    assert asked()[1] == (
        "up --refresh --yes --non-interactive --policy-pack infra/policies --stack dev"
    )


def test_preview_shows_every_property_and_changes_nothing(pulumi, capfd):
    asked = pulumi(stack_export=EXPORTED, preview={"out": "~ maxNodeCount: 4 => 8"})
    assert main(["preview", "--stack", "dev"]) == 0
    assert [line.split()[0] for line in asked()] == ["stack", "preview"]
    assert "maxNodeCount" in capfd.readouterr().out


def test_for_a_program_stdout_is_one_document(pulumi, capfd):
    pulumi(stack_export=EXPORTED, up={"out": "words"},
           stack_output={"out": json.dumps(to_dict(platform()))})  # fmt: skip
    assert main(["up", "--json", "--yes", "True"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["stack"] == "dev"
    assert "words" in err


def test_a_preview_for_a_program_is_pulumis_own_document(pulumi, capfd):
    asked = pulumi(stack_export=EXPORTED, preview={"out": '{"steps": []}', "err": "words"})
    assert main(["preview", "--json"]) == 0
    assert asked()[1] == (
        "preview --json --non-interactive --policy-pack infra/policies --stack dev"
    )
    out, err = capfd.readouterr()
    assert json.loads(out) == {"steps": []}
    assert "words" in err


@pytest.mark.parametrize(
    ("said", "kind", "advice"),
    [
        ("error: no stack named 'dev' found", NotDeployedError, "pulumi stack init dev"),
        ("error: PULUMI_ACCESS_TOKEN must be set", PlatformReadError, "pulumi login"),
        ("error: incorrect passphrase", PlatformReadError, "PULUMI_CONFIG_PASSPHRASE"),
    ],
)
@pytest.mark.parametrize("verb", ["up", "preview"])
def test_what_is_missing_is_said_before_anything_begins(pulumi, capsys, verb, said, kind, advice):
    asked = pulumi(stack_export={"err": said, "status": 255})
    assert main([verb, "--stack", "dev"]) == kind.exit_code
    assert advice in capsys.readouterr().err
    assert len(asked()) == 1


def test_without_pulumi_it_is_told_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["up"]) == PlatformReadError.exit_code
    assert "pulumi: not found on the PATH; install" in capsys.readouterr().err


def test_a_deployment_that_failed_may_be_repeated(pulumi, capfd):
    pulumi(stack_export=EXPORTED, up={"err": "quota", "status": 255})
    assert main(["up", "--yes", "True"]) == UserError.exit_code
    err = capfd.readouterr().err
    assert "pulumi up: failed with exit status 255" in err
    assert "quota" in err


def test_the_reason_of_a_failure_is_told_even_if_the_state_cannot_be_read_then(pulumi, capfd):
    pulumi(stack_export=[EXPORTED, {"err": "error: no route to host", "status": 255}],
           up=refusal("MissingSubscriptionRegistration", "keyvault:Vault"),
           stack_output={"out": json.dumps(to_dict(platform()))})  # fmt: skip
    assert main(["up", "--yes", "True"]) == UserError.exit_code
    assert "register the resource provider" in capfd.readouterr().err


@pytest.fixture
def clock(monkeypatch):
    """A clock that only pauses move; returns the pauses."""
    pauses = []
    time = SimpleNamespace(sleep=pauses.append, monotonic=lambda: 1000.0 + sum(pauses))
    monkeypatch.setattr("jobs.commands.up.time", time)
    return pauses


def refusal(code, kind="network:PrivateEndpoint", name="default-blob"):
    """A deployment that Azure refuses with a code."""
    urn = f"urn:pulumi:dev::ml::azure-native:{kind}::{name}"
    said = {"severity": "error", "urn": urn, "message": f'Status=409 Code="{code}" Message="No."'}
    return {"status": 255, "events": [{"diagnosticEvent": said}]}


BUSY = refusal("StorageAccountOperationInProgress")


def test_a_deployment_goes_on_when_azure_no_longer_refuses(pulumi, capfd, clock):
    asked = pulumi(stack_export=EXPORTED, up=[BUSY, refusal("PrincipalNotFound"), {}],
                   stack_output={"out": json.dumps(to_dict(platform()))})  # fmt: skip
    assert main(["up", "--stack", "dev"]) == 0
    assert [line for line in asked() if line.startswith("up")] == [
        "up --policy-pack infra/policies --stack dev",
        *["up --yes --non-interactive --skip-preview --policy-pack infra/policies --stack dev"] * 2,
    ]
    assert clock == [10, 20]
    err = capfd.readouterr().err
    assert "PrivateEndpoint default-blob: another operation on it" in err
    assert "continues in 10 s, and again until 15 min 0 s after the first refusal" in err


def colored(event):
    """An event as Pulumi writes it if its output is a terminal."""
    said = event["diagnosticEvent"]
    return {
        "diagnosticEvent": {**said, "message": f"<{{%reset%}}>{said['message']}<{{%reset%}}>\n"}
    }


def test_a_deployment_in_a_terminal_goes_on_as_well(pulumi, clock):
    last = {"diagnosticEvent": {"severity": "error", "message": "update failed"}}
    refused = {**BUSY, "events": [colored(event) for event in [*BUSY["events"], last]]}
    pulumi(stack_export=EXPORTED, up=[refused, {}],
           stack_output={"out": json.dumps(to_dict(platform()))})  # fmt: skip
    assert main(["up"]) == 0
    assert clock == [10]


PREVIEW, UPDATE = ({"summaryEvent": {"isPreview": one}} for one in (True, False))
WRONG = {"diagnosticEvent": {"severity": "error", "message": "preview failed"}}
FAILED = "failed with exit status 1"


@pytest.mark.parametrize(
    ("args", "events", "words", "said"),
    [
        ([], [PREVIEW], "warning: x", "stack dev: not confirmed; nothing was changed"),
        ([], [PREVIEW], "error: confirmation cancelled, not proceeding", "dev: not confirmed"),
        ([], [PREVIEW], "error: the backend is gone", FAILED),
        ([], [PREVIEW, UPDATE], "", FAILED),
        ([], [WRONG, PREVIEW], "", FAILED),
        (["--yes", "True"], [PREVIEW], "", FAILED),
        ([], [], "", FAILED),
    ],
)
def test_a_user_who_says_no_is_not_told_to_fix_something(pulumi, capfd, args, events, words, said):
    pulumi(stack_export=EXPORTED, up={"status": 1, "events": events, "err": words})
    assert main(["up", *args]) == UserError.exit_code
    err = capfd.readouterr().err
    assert said in err
    assert ("Fix the cause" in err) == (said == FAILED)


def test_a_deployment_that_azure_refuses_for_15_minutes_fails(pulumi, capfd, clock):
    pulumi(stack_export=EXPORTED, up=BUSY)
    assert main(["up", "--yes", "True"]) == UserError.exit_code
    assert 800 < sum(clock) <= 900
    assert max(clock) == 60
    assert "Azure has refused this for about 15 min 0 s" in capfd.readouterr().err


def test_each_resource_has_its_own_15_minutes(pulumi, clock):
    other = refusal("AnotherOperationInProgress", name="vault")
    pulumi(stack_export=EXPORTED, up=[*[BUSY] * 14, *[other] * 10, {}],
           stack_output={"out": json.dumps(to_dict(platform()))})  # fmt: skip
    assert main(["up", "--yes", "True"]) == 0
    assert sum(clock) > 900


def test_another_error_ends_a_deployment_at_once_with_its_cure(pulumi, capfd, clock):
    pulumi(stack_export=EXPORTED, up=refusal("MissingSubscriptionRegistration", "keyvault:Vault"))
    assert main(["up", "--yes", "True"]) == UserError.exit_code
    assert clock == []
    assert "register the resource provider" in capfd.readouterr().err


def test_ctrl_c_ends_the_wait(pulumi, capfd, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    time = SimpleNamespace(sleep=interrupt, monotonic=lambda: 1000.0)
    monkeypatch.setattr("jobs.commands.up.time", time)
    pulumi(stack_export=EXPORTED, up=BUSY)
    assert main(["up", "--yes", "True"]) == INTERRUPTED
    assert "run the same command again to continue" in capfd.readouterr().err


def test_a_cluster_that_was_to_be_another_or_to_go_is_told_with_the_two_commands(pulumi, capfd):
    kind, outputs = "azure-native:machinelearningservices:Compute", platform()
    known = {"gpu": outputs.clusters["gpu"].name, "preparation": "prep-old", "a100-b": "a100-gone"}
    resources = [
        {"urn": f"urn:pulumi:dev::ml::{kind}::cluster-{role}", "type": kind, "custom": True,
         "id": f"/subscriptions/s/workspaces/ml/computes/{name}"}
        for role, name in known.items()
    ]  # fmt: skip
    exported = {"out": json.dumps({"deployment": {"resources": resources}})}
    pulumi(stack_export=exported, up={"err": "refused", "status": 255},
           stack_output={"out": json.dumps(to_dict(outputs))})  # fmt: skip
    assert main(["up", "--yes", "True", "--stack", "dev"]) == UserError.exit_code
    err = capfd.readouterr().err
    assert "`python -m jobs teardown --cluster prep-old --stack dev`, and then" in err
    assert "`python -m jobs teardown --cluster a100-gone --stack dev`, and then" in err
    assert "`python -m jobs up --refresh True --stack dev`" in err
    assert known["gpu"] not in err


@pytest.mark.parametrize(
    "said",
    [
        "error: the stack is currently locked by 1 lock(s). Either wait for the other",
        "error: [409] Conflict: Another update is currently in progress.",
    ],
)
def test_a_locked_stack_is_told_with_what_to_do(pulumi, capfd, said):
    pulumi(stack_export=EXPORTED, up={"err": said, "status": 255})
    assert main(["up", "--yes", "True"]) == LockedError.exit_code
    err = capfd.readouterr().err
    assert said in err
    assert "If not, remove the lock with `pulumi cancel --stack dev`" in err


def test_pending_operations_are_told_before_anything_begins(pulumi, capfd):
    urn = "urn:pulumi:dev::ml::azure-native:containerregistry:Registry::registry"
    operations = [{"type": "creating", "resource": {"urn": urn}}]
    state = {"deployment": {"resources": [], "pending_operations": operations}}
    asked = pulumi(stack_export={"out": json.dumps(state)})
    assert main(["up", "--yes", "True"]) == LockedError.exit_code
    err = capfd.readouterr().err
    assert "a deployment is creating registry, or was killed" in err
    assert "pulumi refresh --yes --clear-pending-creates --stack dev" in err
    assert len(asked()) == 1
