"""A trained model in use: the real server answers at an endpoint, through the commands."""

import json
import subprocess

import pytest

from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.serving import deploy, score, traffic
from jobs.serving.deploy import DeployOptions
from jobs.serving.endpoints import Endpoints
from jobs.serving.score import ScoreOptions
from jobs.serving.traffic import TrafficOptions
from rehearsal.loopback import Loopback
from rehearsal.options import Options
from rehearsal.serving.endpoints import ENDPOINT
from tests import ROOT
from tests.jobs.support.live import declare
from tests.jobs.support.runs import answer, put

pytestmark = [pytest.mark.slow, pytest.mark.rehearse_all]

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


def test_a_trained_model_answers_as_predict_does(predicted, tmp_path, monkeypatch, capsys):
    options = Options(max_processes_per_node=1)
    with Loopback(tmp_path / "azure", options) as azure:
        live = declare(azure, tmp_path)
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
        assert Endpoints(connect(live.outputs).manager, Console(), 60, 0.1).delete_all() == 1
        assert azure.resources.of_kind(ENDPOINT) == []
