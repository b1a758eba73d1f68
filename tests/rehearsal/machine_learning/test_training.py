"""The real trainer as a submitted job."""

import json
import subprocess

import pytest

from tests import ROOT
from tests.rehearsal.conftest import WORKSPACE

PYTHON = ROOT / ".venv-trainer" / "bin" / "python"


def train_on_two_nodes(client, azure, results):
    """Train to the end; the log of rank 0 and the result."""
    listed = subprocess.run(
        ["git", "ls-files", "common", "trainer"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.split():
        results.upload_blob(f"code/{name}", (ROOT / name).read_bytes(), overwrite=True)
    code = f"{WORKSPACE}/codes/trainer/versions/1"
    uri = f"{azure.blob_endpoint('teststore')}results/code"
    assert client.put(code, {"properties": {"codeUri": uri}}).status_code == 201
    folder = "azureml://datastores/results/paths/runs/digits"
    answer = client.job(
        "training",
        "python -m trainer train --preset digits --max-steps 6 --name digits --ranks 2"
        " --runs-dir ${{outputs.run}} --log.tensorboard-dir outputs/tb",
        codeId=code,
        resources={"instanceCount": 2},
        distribution={"distributionType": "Mpi", "processCountPerInstance": 1},
        outputs={"run": {"jobOutputType": "uri_folder", "uri": folder, "mode": "ReadWriteMount"}},
        environmentVariables={"TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert answer.status_code == 201, answer.text
    ended = client.wait("training", seconds=240)
    log = client.log("training", "std_log_process_00.txt")
    assert ended["status"] == "Completed", log
    result = json.loads(results.download_blob("runs/digits/digits/result.json").readall())
    return log, result


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="the trainer's environment is not installed")
def test_two_nodes_train_together_and_what_they_wrote_is_in_the_container(client, azure, results):
    log, result = train_on_two_nodes(client, azure, results)
    assert result, log
    events = azure.blobs.container("teststore", "azureml").list_blobs(
        name_starts_with="ExperimentRun/dcid.training/outputs/tb/"
    )
    assert list(events), log
