"""A scoring in batch is checked, submitted once, and found again."""

import json

import pytest

from jobs.cli import main
from tests.jobs.support.runs import put

ARM = "2024-10-01"


@pytest.fixture
def model(live):
    """Register a model; return how to, with the facts of its export."""

    def register(name="flowers", folder=None, **facts):
        folder = folder or f"models/{name}/1"
        put(live, {f"{folder}/export.json": json.dumps(facts).encode()})
        uri = f"azureml://datastores/{live.outputs.datastores.results.name}/paths/{folder}"
        body = {"properties": {"modelType": "custom_model", "modelUri": uri}}
        live.azure.put(f"{live.workspace}/models/{name}/versions/1", ARM, body)
        return f"{name}:1"

    return register


def command(model, *args):
    where = ["--input", "raw/photos", "--output", "scores/photos", "--no-follow"]
    return main(["score-batch", model, *where, *args])


def test_the_job_and_what_it_costs_are_told_and_it_is_submitted(live, outputs, model, capsys):
    assert command(model(), "--nodes", "2", "--name", "all-photos", "--", "--format", "csv") == 0
    said = capsys.readouterr().out
    assert "2 x Standard_D16ads_v5" in said
    assert "an hour" in said
    job = live.azure.resources.get(f"{live.workspace}/jobs/all-photos-r1")["properties"]
    assert job["distribution"] == {"distributionType": "Mpi", "processCountPerInstance": 1}
    assert job["inputs"]["model"]["uri"].endswith("/paths/models/flowers/1")
    assert "--format csv" in job["command"]
    assert job["tags"]["model"] == "flowers:1"


def test_what_would_fail_on_a_node_is_refused_before(live, outputs, model, capsys):
    assert command("flowers:77") == 1
    assert "model flowers:77: is not registered" in capsys.readouterr().err
    assert command(model("own", folder="runs/x/export")) == 2
    assert "own:1 lies in runs/x/export, but such jobs read models below" in capsys.readouterr().err
    broken = model("broken")
    put(live, {"models/broken/1/export.json": b'{"task": "class'})
    assert command(broken) == 2
    assert "models/broken/1/export.json is broken" in capsys.readouterr().err
    assert command(model(), "--", "--part", "1") == 2
    assert "--part: follows from the job" in capsys.readouterr().err
