"""A run that takes seconds, as a job of the small platform."""

import json
import subprocess

from tests import ROOT
from tests.rehearsal.support.small_platform import RESULTS, WORKSPACE

TINY = (
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--data.streams", "4", "--data.shuffle-window", "50"),
    *("--log.report", "False", "--export", "False", "--restarts", "0"),
)
"""Options of a run that takes seconds."""


def train_on_two_nodes(client, azure, results):
    """Train to the end by the real trainer; the log of rank 0 and the result."""
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
    run = {
        "jobOutputType": "uri_folder",
        "uri": f"{RESULTS}/runs/digits",
        "mode": "ReadWriteMount",
    }
    answer = client.job(
        "training",
        "python -m trainer train --preset digits --max-steps 6 --name digits --ranks 2"
        f" --runs-dir ${{{{outputs.run}}}} --log.tensorboard-dir outputs/tb {' '.join(TINY)}",
        codeId=code,
        resources={"instanceCount": 2},
        distribution={"distributionType": "Mpi", "processCountPerInstance": 1},
        outputs={"run": run},
        environmentVariables={"TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert answer.status_code == 201, answer.text
    ended = client.wait("training")
    log = client.log("training", "std_log_process_00.txt")
    assert ended["status"] == "Completed", log
    result = json.loads(results.download_blob("runs/digits/digits/result.json").readall())
    return log, result
