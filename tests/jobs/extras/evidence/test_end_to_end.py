"""From a run of the trainer, over its statements and `register`, to `deploy --require-evidence`."""

import subprocess

import pytest

from common.errors import UserError
from jobs.commands import register
from jobs.commands.register import RegisterOptions
from jobs.extras.serving import deploy
from jobs.extras.serving.deploy import DeployOptions
from tests import ROOT
from tests.jobs.support.runs import answer, container, put
from tests.jobs.support.serving import delete_endpoints
from tests.trainer.extras.evidence.keys import write_keys

pytestmark = pytest.mark.slow

TRAINER = ROOT / ".venv-trainer" / "bin" / "python"
TINY = (
    *("--preset", "digits", "--max-steps", "2", "--ranks", "1", "--restarts", "0"),
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--log.report", "False", "--export", "True", "--evidence.key", "key.pem"),
)


@pytest.mark.long
def test_a_run_is_deployed_as_it_was_stated_and_not_with_one_byte_edited(live, tmp_path, capsys):
    write_keys(tmp_path)
    done = subprocess.run(
        [TRAINER, "-m", "trainer", "train", *TINY, "--name", "shown"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": f"{TRAINER.parent}:/usr/bin:/bin",
             "HOME": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "shown"
    put(live, {
        f"runs/shown/shown/{path.relative_to(run).as_posix()}": path.read_bytes()
        for path in run.rglob("*") if path.is_file()
    })  # fmt: skip
    register.run(RegisterOptions(name="shown"), live.outputs, as_json=True)
    registered = answer(capsys)
    assert registered["properties"]["evidence_signed"] == "true"

    options = DeployOptions(
        model=registered["model"],
        endpoint="shown",
        require_evidence=True,
        evidence_key=str(tmp_path / "key.pub.pem"),
        poll_seconds=0.05,
        wait_minutes=1.0,
    )
    try:
        assert deploy.run(options, live.outputs, as_json=False) == 0
    finally:
        delete_endpoints(live)
    assert "hold, signed by key" in capsys.readouterr().out

    folder = registered["uri"].partition("/paths/")[2]
    blob = container(live).get_blob_client(f"{folder}/saved_model/saved_model.pb")
    content = bytearray(blob.download_blob().readall())
    content[len(content) // 2] ^= 1
    blob.upload_blob(bytes(content), overwrite=True)
    with pytest.raises(UserError, match=r"saved_model\.pb: has other bytes than in statement"):
        deploy.run(options, live.outputs, as_json=False)
