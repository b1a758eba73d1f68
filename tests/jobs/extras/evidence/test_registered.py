"""The statements of a run on the model that is registered of it, and before it is deployed."""

import json

import pytest

from common.errors import ConfigError, UserError
from jobs.azure.workspace import connect
from jobs.commands import register
from jobs.commands.register import RegisterOptions
from jobs.errors import SpecError
from jobs.extras.evidence.leaf import EvidenceCheckOptions
from jobs.extras.evidence.registered import check
from jobs.extras.serving.deploy import DeployOptions
from tests.jobs.commands.test_register import files
from tests.jobs.support.runs import answer, put
from tests.trainer.extras.evidence.keys import write_keys
from trainer.extras.evidence.signing import FileKey
from trainer.extras.evidence.statements import Chain, export_digests


def stated(live, tmp_path, run, *, key=None):
    """Put a run with an export and statements into the results; return the container's client."""
    folder = tmp_path / run
    contents = files(run)
    for name, content in contents.items():
        path = folder / name.removeprefix(f"runs/{run}/{run}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    chain = Chain(folder, FileKey(tmp_path / key) if key else None)
    for step in (300, 450):
        facts = {"step": step, "time": "now", "facts": {}}
        chain.append("export", export_digests(folder), facts)
    for path in (folder / "evidence").iterdir():
        contents[f"runs/{run}/{run}/evidence/{path.name}"] = path.read_bytes()
    return put(live, contents), chain


def registered(live, capsys, run):
    register.run(RegisterOptions(name=run), live.outputs, as_json=True)
    return answer(capsys)


def require(live, model, **options):
    return check(
        EvidenceCheckOptions(require_evidence=True, **options), connect(live.outputs), model
    )


def test_a_model_with_statements_is_registered_with_their_digest_and_passes(live, tmp_path, capsys):
    write_keys(tmp_path)
    write_keys(tmp_path, "other")
    _, chain = stated(live, tmp_path, "proven", key="key.pem")
    done = registered(live, capsys, "proven")
    assert done["properties"]["evidence"] == chain.statements[-1].digest
    key = str(tmp_path / "key.pub.pem")
    assert "2 statements hold, signed by key" in require(live, done["model"], evidence_key=key)
    with pytest.raises(UserError, match="is signed by key"):
        require(live, done["model"], evidence_key=str(tmp_path / "other.pub.pem"))
    with pytest.raises(ConfigError, match="is not the PEM file of a public key"):
        require(live, done["model"], evidence_key=str(tmp_path / "key.pem"))
    assert check(EvidenceCheckOptions(), connect(live.outputs), done["model"]) is None


def test_a_model_without_statements_is_registered_and_refused_only_if_asked(live, capsys):
    put(live, files("plain"))
    done = registered(live, capsys, "plain")
    assert "evidence" not in done["properties"]
    with pytest.raises(SpecError, match="was registered without statements of a run"):
        require(live, done["model"])


def _file_of_model(client, folder, names):
    client.upload_blob(f"{folder}/saved_model/saved_model.pb", b"other", overwrite=True)
    return "saved_model/saved_model.pb: has other bytes than in statement 2"


def _added_file(client, folder, names):
    client.upload_blob(f"{folder}/model.onnx", b"another model")
    return "model.onnx: was added since statement 2"


def _dropped_statement(client, folder, names):
    client.delete_blob(names[0])
    return "statement 1 before it is missing"


def _dropped_newest(client, folder, names):
    client.delete_blob(names[1])
    return "the newest statement at the registration, .* is not there"


def _truncated(client, folder, names):
    client.upload_blob(names[0], b"{", overwrite=True)
    return "is truncated, or not a statement"


@pytest.mark.parametrize(
    "change", [_file_of_model, _added_file, _dropped_statement, _dropped_newest, _truncated]
)
def test_what_was_changed_after_the_registration_is_refused(live, tmp_path, capsys, change):
    run = change.__name__.strip("_").replace("_", "")
    client, chain = stated(live, tmp_path, run)
    done = registered(live, capsys, run)
    folder = done["uri"].partition("/paths/")[2]
    names = [f"runs/{run}/{run}/evidence/{one.file}" for one in chain.statements]
    said = change(client, folder, names)
    with pytest.raises(UserError, match=said):
        require(live, done["model"])


def test_a_run_whose_statements_do_not_hold_is_not_registered(live, tmp_path):
    client, chain = stated(live, tmp_path, "broken")
    name = f"runs/broken/broken/evidence/{chain.statements[0].file}"
    client.upload_blob(name, json.dumps({}).encode(), overwrite=True)
    with pytest.raises(UserError, match="differs from its statements"):
        register.run(RegisterOptions(name="broken"), live.outputs, as_json=True)


def test_deploy_has_the_options():
    assert DeployOptions(require_evidence=True).evidence_key is None
