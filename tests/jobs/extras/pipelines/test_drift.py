"""`drift` and `preview --markdown`, with given answers of Pulumi."""

import json

import pytest

from common.errors import UserError
from jobs.cli import main
from jobs.errors import NotDeployedError
from jobs.exit_status import DRIFT
from tests.jobs.pulumi.test_changes import STEPS, step

EXPORTED = {"out": json.dumps({"deployment": {"resources": []}})}
CHANGED = {"out": json.dumps({"steps": [step("update", "data", differ=["tags.owner"])]})}
UNCHANGED = {"out": json.dumps({"steps": [step("same", "data")]})}


def test_no_drift_is_success(pulumi, capfd):
    asked = pulumi(stack_export=EXPORTED, refresh=UNCHANGED)
    assert main(["drift", "--stack", "dev"]) == 0
    assert asked()[1] == "refresh --preview-only --json --non-interactive --stack dev"
    assert "stack dev: no drift" in capfd.readouterr().out


def test_drift_has_its_own_status_and_says_what_to_do(pulumi, capfd, tmp_path):
    pulumi(stack_export=EXPORTED, refresh=CHANGED)
    page = tmp_path / "summary.md"
    assert main(["drift", "--stack", "dev", "--markdown", str(page)]) == DRIFT
    out = capfd.readouterr().out
    assert "data (azure-native:storage:StorageAccount): differs in tags.owner" in out
    assert "python -m jobs up --refresh True --stack dev" in out
    assert "hush" not in out
    assert "1 resource changed outside of Pulumi." in page.read_text()


def test_for_a_program_drift_is_one_document(pulumi, capfd):
    pulumi(stack_export=EXPORTED, refresh=CHANGED)
    assert main(["drift", "--json"]) == DRIFT
    (found,) = json.loads(capfd.readouterr().out)["drift"]
    assert (found["name"], found["properties"]) == ("data", ["tags.owner"])


def test_a_failed_comparison_is_no_drift(pulumi, capfd):
    said = {"severity": "error", "urn": "", "message": "no access"}
    pulumi(stack_export=EXPORTED,
           refresh={"status": 255, "out": "{}", "events": [{"diagnosticEvent": said}]})  # fmt: skip
    assert main(["drift"]) == UserError.exit_code
    err = capfd.readouterr().err
    assert "pulumi refresh: failed" in err
    assert "no access" in err


@pytest.mark.parametrize("answer", ["", "words", "[1]"])
def test_an_answer_that_is_no_document_is_told(pulumi, capfd, answer):
    pulumi(stack_export=EXPORTED, refresh={"out": answer})
    assert main(["drift"]) == NotDeployedError.exit_code
    assert "is not JSON" in capfd.readouterr().err


def test_a_preview_is_written_for_a_comment(pulumi, capfd, monkeypatch, tmp_path):
    monkeypatch.setattr("jobs.commands.up.require_prerequisites", lambda *_: None)
    asked = pulumi(stack_export=EXPORTED, preview={"out": json.dumps(STEPS)})
    page = tmp_path / "build" / "preview.md"
    assert main(["preview", "--stack", "dev", "--markdown", str(page)]) == 0
    assert asked()[1] == "preview --policy-pack infra/policies --json --non-interactive --stack dev"
    assert "Deletes or replaces" in page.read_text()
    out = capfd.readouterr().out
    assert out.startswith("stack dev: 1 to delete, 1 to replace, 1 to create, 1 to update")
    assert "hush" not in out
