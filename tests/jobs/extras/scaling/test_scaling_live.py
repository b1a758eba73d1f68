"""`scaling` on the simulator, with the real trainer."""

import json
import subprocess
from dataclasses import replace
from threading import Barrier
from types import SimpleNamespace

import pytest

from common.prices import NodePrices
from jobs import throughput
from jobs.azure.job_records import Job
from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.console import Console
from jobs.errors import SignInError
from jobs.extras.scaling.command import Measuring, ScalingOptions, make_tasks
from jobs.following.supervisor import RunResult
from tests import ROOT
from tests.jobs.support.platform import platform
from trainer.presets import PRESETS

TINY = (
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8", "--batch-size", "4"),
    *("--compute.precision", "float32", "--compute.xla", "False"),
)


def command(folder, *options):
    return (
        *("scaling", "--folder", str(folder), "--steps", "3", "--repeat", "2"),
        *("--poll-seconds", "0.2", *options, "--", *TINY),
    )


def measured(folder):
    return throughput.read(folder / "dev" / "sweep" / throughput.FILE)


def test_nothing_is_submitted_unless_somebody_agrees(live, outputs, tmp_path, capsys, monkeypatch):
    assert main(command(tmp_path, "--nodes", "1", "2")) == 1
    shown = capsys.readouterr()
    # One node and two, at most 2 USD an hour each, for half an hour and three attempts.
    assert "costs at most 9.00 USD" in shown.err
    assert "pass --yes" in shown.err
    assert "? no row of classification --depth 18" in " ".join(shown.out.split())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "n\n", raising=False)
    assert main(command(tmp_path, "--nodes", "1")) == 1
    assert "nothing was submitted" in capsys.readouterr().err
    assert not [job for job in connect(outputs).jobs.newest_first() if job.run.startswith("sweep-")]
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.rehearse_all
def test_a_data_set_is_measured_beside_synthetic_data(live, outputs, tmp_path, capsys):
    folder = str(tmp_path / "digits")
    program = [ROOT / ".venv-trainer" / "bin" / "python", "-m", "trainer"]
    prepared = [*program, "prepare", "digits", "--output", folder]
    subprocess.run(prepared, cwd=ROOT, capture_output=True, check=True)
    assert main(["upload", folder, "--to", "prepared/measured", "--json"]) == 0
    asset = json.loads(capsys.readouterr().out)["asset"]
    sweep = command(tmp_path, "--nodes", "1", "--data", asset, "--yes", "--even-if-poor")
    assert main(sweep) == 0
    synthetic, real = measured(tmp_path)
    assert (synthetic.data, real.data) == (throughput.SYNTHETIC, asset)
    assert len(real.rates) == 2
    assert f"gpu, 1 node, {asset}: used although" in capsys.readouterr().out


CONFIG = PRESETS["imagenet-ndv2"]


@pytest.fixture
def measuring(tmp_path):
    """Returns what measures some clusters and numbers of nodes, and their tasks."""

    def made(series, nodes):
        options = ScalingOptions(folder=str(tmp_path), series=series, nodes=nodes)
        tasks = make_tasks(options, platform(), CONFIG, NodePrices())
        return Measuring(options, platform(), CONFIG, Console(), []), tasks

    return made


def test_clusters_are_measured_side_by_side_and_a_failure_leaves_out_its_own_larger_points(
    measuring, tmp_path, monkeypatch, capsys
):
    stack = platform()
    measurement, asked = measuring(("gpu", "cpu"), (1, 2))
    together = Barrier(2)

    def measure(_, __, task):
        if task.nodes == 1:
            together.wait(60)
        if task.series == "gpu":
            return replace(task.wanted, problem="the job: failed")
        return replace(task.wanted, rates=(5.0 * task.nodes,))

    monkeypatch.setattr(Measuring, "_measured", measure)
    monkeypatch.setattr("jobs.extras.scaling.command.connect", lambda _: None)
    assert measurement.of(asked)
    found = {(one.size, one.nodes): one.problem for one in measured(tmp_path)}
    gpu, cpu = stack.clusters["gpu"].size, stack.clusters["cpu"].size
    assert found == {(gpu, 1): "the job: failed", (cpu, 1): None, (cpu, 2): None}
    assert "left out: gpu, 2 nodes, synthetic" in capsys.readouterr().err


def test_a_sign_in_that_fails_is_said_in_words_and_leaves_out_the_cluster(
    measuring, monkeypatch, capsys
):
    measurement, asked = measuring(("gpu",), (1, 2))

    def refuse(_):
        raise SignInError("not signed in; run az login")

    monkeypatch.setattr("jobs.extras.scaling.command.connect", refuse)
    assert measurement.of(asked)
    shown = capsys.readouterr().err
    assert "gpu, 1 node, synthetic: not signed in; run az login" in shown
    assert "left out: gpu, 2 nodes, synthetic" in shown


def test_a_job_whose_result_could_not_be_read_is_followed_again_and_not_repeated(
    measuring, tmp_path, monkeypatch, capsys
):
    measurement, (task,) = measuring(("gpu",), (1,))
    job = Job("sweep-gpu-1-r1", "Completed", "gpu", 1, None, None)
    followed = []

    class Unread:
        def follow(self, job):
            followed.append(job.name)
            return RunResult(job, "Completed", 22, "its result could not be read", 1)

    workspace = SimpleNamespace(jobs=SimpleNamespace(attempts=lambda _: (job,)))
    monkeypatch.setattr("jobs.extras.scaling.command.connect", lambda _: workspace)
    monkeypatch.setattr("jobs.extras.scaling.command.Supervisor", lambda *_, **__: Unread())
    for _ in range(2):
        assert measurement.of([task])
        assert "its result could not be read" in capsys.readouterr().err
    assert followed == ["sweep-gpu-1-r1"] * 2
    assert not list(tmp_path.rglob("*.jsonl"))
