"""A trained model in use: the real server answers at an endpoint, and jobs score a folder, through
the commands.
"""

import json
import subprocess
import threading
from dataclasses import replace

import pytest

from common.waiting import wait_until
from jobs.extras.batch import command as score_batch
from jobs.extras.batch.command import ScoreBatchOptions
from jobs.extras.serving import deploy, score, traffic
from jobs.extras.serving.deploy import DeployOptions
from jobs.extras.serving.score import ScoreOptions
from jobs.extras.serving.traffic import TrafficOptions
from jobs.options import ResubmitOptions
from rehearsal.options import Options
from rehearsal.serving.endpoints import ENDPOINT
from rehearsal.simulator import Simulator
from tests import ROOT
from tests.jobs.support.live import declare
from tests.jobs.support.platform import platform
from tests.jobs.support.runs import answer, blobs, container, put
from tests.jobs.support.torn_down import Stack, put_pulumi
from tests.rehearsal.support.waiting import SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.rehearse_all, pytest.mark.without_engine]

ARM = "2024-10-01"
PYTHON = ROOT / ".venv-trainer" / "bin" / "python"
WRITE_HELD_OUT = """\
import pathlib, sys
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split

for record in split(load_records(), VALIDATION_PER_CLASS, "digits")[1]:
    (pathlib.Path(sys.argv[1]) / record.filename).write_bytes(record.encoded)
"""


def trainer(*arguments, cwd):
    done = subprocess.run(
        [str(PYTHON), *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": f"{PYTHON.parent}:/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    """A run with an export, and a file with what `trainer predict` says about held-out digits."""
    place = tmp_path_factory.mktemp("run")
    (place / "digits").mkdir()
    trainer("-c", WRITE_HELD_OUT, str(place / "digits"), cwd=place)
    options = ["--preset", "digits", "--epochs", "4", "--export", "True", "--name", "digits"]
    trainer("-m", "trainer", "train", *options, "--ranks", "1", cwd=place)
    lines = trainer(
        *("-m", "trainer", "predict", str(place / "digits"), "--run", "runs/digits"),
        *("--json", "True"),
        cwd=place,
    )
    (place / "predicted.jsonl").write_text(lines)
    return place


PER_FILE = ("--images-per-file", "3")


def described():
    """A platform whose preparations run on low-priority nodes."""
    stack = platform()
    low = replace(stack.clusters["preparation"], priority="LowPriority")
    return replace(stack, clusters={**stack.clusters, "preparation": low})


def score_in_batch(live, digits):
    """Score a folder of storage on two nodes, and take them away in the middle."""
    images = {path.name: path.read_bytes() for path in digits.iterdir()}
    raw = container(live, "raw")
    for name, content in images.items():
        raw.upload_blob(f"digits/{name}", content)
    finished = []

    def take_a_node():
        def begun():
            return [name for name in blobs(live, "prepared/scores/digits") if name[:3] == "_pa"]

        finished.append(len(wait_until(begun, SECONDS, 0.05)))
        live.azure.admin.preempt(job=f"{live.workspace}/jobs/batch-r1")

    taker = threading.Thread(target=take_a_node)
    taker.start()
    asked = ScoreBatchOptions(
        model="digits:2",
        input="raw/digits",
        output="scores/digits",
        nodes=2,
        name="batch",
        poll_seconds=0.2,
        resubmit=ResubmitOptions(backoff_seconds=0),
    )
    program = ("--processes", "1", *PER_FILE)
    assert score_batch.run(asked, live.outputs, as_json=True, program=program) == 0
    taker.join()
    assert 0 < finished[0] < len(images) // 3
    prepared = container(live, "prepared")
    return {
        name: prepared.download_blob(f"scores/digits/{name}").readall()
        for name in blobs(live, "prepared/scores/digits")
    }


def test_a_trained_model_answers_as_predict_does(predicted, tmp_path, monkeypatch, capsys):
    options = Options(
        max_processes_per_node=1, program_folder=PYTHON.parent, sync_seconds=0.1, mount_seconds=0.2
    )
    with Simulator(tmp_path / "azure", options) as azure:
        live = declare(azure, tmp_path, described())
        for name, value in azure.environment.items():
            monkeypatch.setenv(name, value)
        export = predicted / "runs" / "digits" / "export"
        files = {
            path.relative_to(export).as_posix(): path.read_bytes()
            for path in export.rglob("*")
            if path.is_file()
        }
        for version in ("1", "2"):
            folder = f"models/digits/{version}"
            put(live, {f"{folder}/{name}": content for name, content in files.items()})
            uri = f"azureml://datastores/{live.outputs.datastores.results.name}/paths/{folder}"
            body = {"properties": {"modelType": "custom_model", "modelUri": uri}}
            azure.put(f"{live.workspace}/models/digits/versions/{version}", ARM, body)
        lines = (predicted / "predicted.jsonl").read_text().splitlines()
        expected = {one["image"]: one["classes"][0]["class_id"] for one in map(json.loads, lines)}

        def deployed(version, **more):
            asked = DeployOptions(
                model=f"digits:{version}",
                endpoint="digits",
                expected=str(predicted / "predicted.jsonl"),
                poll_seconds=0.5,
                **more,
            )
            assert deploy.run(asked, live.outputs, as_json=True) == 0
            return answer(capsys)

        first = deployed("1")
        assert (first["traffic"], first["tested_images"]) == ({"blue": 100}, len(expected))
        second = deployed("2", to="green", traffic=10)
        assert second["traffic"] == {"blue": 90, "green": 10}
        asked = ScoreOptions(images=(str(predicted / "digits"),), endpoint="digits")
        assert score.run(asked, live.outputs, as_json=True) == 0
        found = {one["image"]: one["classes"][0]["class_id"] for one in answer(capsys)}
        assert found == expected
        promoted = TrafficOptions(endpoint="digits", to="green")
        assert traffic.run(promoted, live.outputs, as_json=True) == 0
        assert answer(capsys)["traffic"] == {"green": 100}
        scored = score_in_batch(live, predicted / "digits")
        ended = answer(capsys)
        assert (ended["job"], ended["scores"]) == ("batch-r2", "scores/digits")
        trainer(
            *("-m", "trainer", "score", "--run", "runs/digits", "--input", "digits"),
            *("--output", "scores", *PER_FILE),
            cwd=predicted,
        )
        here = predicted / "scores"
        assert scored == {path.name: path.read_bytes() for path in here.iterdir()}
        # The endpoint is still there.
        put_pulumi(tmp_path, monkeypatch)
        stack = Stack(live, tmp_path)
        assert stack.tear_down() == 0
        assert answer(capsys)["done"][0] == "deleted 1 endpoint"
        assert azure.resources.of_kind(ENDPOINT) == []
