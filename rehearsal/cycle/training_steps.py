"""Steps of a training: from images to a registered model, with its nodes taken on the way."""

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rehearsal.cycle import output_parsing
from rehearsal.cycle.commands import CommandError, wait_for
from rehearsal.cycle.context import Scene
from rehearsal.cycle.findings import Found, require
from rehearsal.cycle.record import Attempt
from rehearsal.errors import RehearsalError

RUN: Final = "rehearsal"
NODES: Final = 2
_SAVED_STEPS: Final = 40
"""From here on the nodes are taken: something is saved, and more than half is still to be done."""
_SMALL: Final = (
    *("--model.depth", "18", "--model.width", "8", "--model.image-size", "8", "--epochs", "6"),
    *("--evaluation.every-epochs", "3", "--checkpoint.every-steps", "20"),
    *("--log.every-steps", "10", "--restarts", "0"),
)
"""The digits preset made smaller: what is rehearsed is not the accuracy."""
_CHECKPOINT: Final = re.compile(r"/step-(\d+)[^/]*/DONE")
_LONG_SECONDS: Final = 180.0


def preflight(scene: Scene) -> Found:
    """Look whether a training could start."""
    said = scene.jobs("preflight", "--preset", "digits", "--nodes", str(NODES))
    points = [line for line in said.text.splitlines() if line.startswith("ok ")]
    require(len(points) > 1, "it has looked at nothing")
    return [f"{len(points)} points, all ok"]


def prepare(scene: Scene) -> Found:
    """Write a data set as shards."""
    folder = scene.folder / "digits"
    scene.trainer("prepare", "digits", "--output", str(folder))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    images = {name: sum(split["class_counts"]) for name, split in manifest["splits"].items()}
    return [", ".join(f"{count:,} images to {name}" for name, count in images.items())]


def upload(scene: Scene) -> Found:
    """Send it to the container of prepared data."""
    sent = scene.asked("upload", str(scene.folder / "digits"), "--to", "prepared/digits")
    scene.learnt.data_set = sent["asset"]
    return [f"registered as {scene.learnt.data_set}"]


def train(scene: Scene) -> Found:
    """Train on two nodes, which are taken away in the middle."""
    thief = _Thief(scene)
    thief.start()
    try:
        said = scene.jobs(
            "submit",
            *("--preset", "digits", "--nodes", str(NODES), "--name", RUN),
            *("--data.asset", scene.learnt.data_set),
            *("--poll-seconds", "0.5", "--resubmit.backoff-seconds", "1"),
            *("--", *_SMALL),
            live=True,
        )
    finally:
        thief.stop()
    attempts = scene.attempts()
    require(thief.taken_at > 0, "the nodes were never taken: the training ended before")
    require(
        [one.status for one in attempts] == ["Failed", "Completed"],
        f"the attempts ended as {', '.join(f'{one.job} {one.status}' for one in attempts)}",
    )
    require("PreemptionError" in attempts[0].reason, f"it failed otherwise: {attempts[0].reason}")
    at = output_parsing.continued_at(said.text)
    require(
        at is not None and at >= thief.taken_at,
        f"saved until step {thief.taken_at}, but it continued at step {at}",
    )
    scene.learnt.attempts = _with_steps(attempts, at or 0, output_parsing.last_step(said.text))
    return [
        f"nodes taken when step {thief.taken_at} was saved",
        f"submitted again as {attempts[1].job}, continued at step {at}, completed",
        *_metrics(scene, attempts[1].job, output_parsing.last_step(said.text)),
    ]


def _metrics(scene: Scene, job: str, last_step: int | None) -> Found:
    """Look whether a job's metrics have come to the workspace to the last."""
    if scene.azure.options.image is None:
        # MLflow is in the images only.
        return []
    tracked = scene.azure.tracking.metrics(f"{scene.workspace}/jobs/{job}")
    for name in ("train/loss", "evaluation/top1"):
        steps = [value["step"] for value in tracked.get(name, [])]
        require(
            steps != [] and steps[-1] == last_step,
            f"of {name} the workspace has the steps {steps}, and the last was {last_step}",
        )
    return [f"{len(tracked)} metrics in the workspace, to step {last_step}"]


class _Thief(threading.Thread):
    """Takes the nodes of the first attempt away as soon as enough is saved."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="thief", daemon=True)
        self._scene, self._stopped = scene, threading.Event()
        self.taken_at = 0
        """Newest step of which a whole checkpoint was in storage; 0 if nothing was taken."""
        self._failure: Exception | None = None

    def stop(self) -> None:
        """Take nothing more.

        Raises:
            RehearsalError: it could not look.
        """
        self._stopped.set()
        self.join()
        if self._failure is not None:
            raise RehearsalError(f"the nodes could not be taken: {self._failure!r}")

    def run(self) -> None:
        """Look and take."""
        try:
            self._take()
        except Exception as error:  # noqa: BLE001
            # A thread's own end would be told as a training that was too fast.
            self._failure = error

    def _take(self) -> None:
        azure, job = self._scene.azure, f"{self._scene.workspace}/jobs/{RUN}-r1"
        while not self._stopped.wait(0.1):
            if azure.runs.get(job)["status"] != "Running":
                continue
            saved = _saved(self._scene)
            if saved >= _SAVED_STEPS:
                self.taken_at = saved
                azure.admin.preempt(job=job)
                return


def _saved(scene: Scene) -> int:
    """Newest step of which a whole checkpoint is in storage."""
    store = scene.learnt.outputs["datastores"]["results"]
    blobs = scene.azure.blobs.container(store["account"], store["container"])
    names = blobs.list_blob_names(name_starts_with=f"runs/{RUN}/{RUN}/checkpoints/")
    return max((int(step) for name in names for step in _CHECKPOINT.findall(name)), default=0)


def _with_steps(
    attempts: Sequence[Attempt], continued: int, last_step: int | None
) -> tuple[Attempt, ...]:
    """The attempts with what of their training was kept."""
    first, last = attempts
    return (
        replace(first, first_step=1, last_step=continued),
        replace(last, first_step=continued + 1, last_step=last_step),
    )


def scale_down(scene: Scene) -> Found:
    """Wait until nobody pays for a node."""
    cluster = scene.cluster("gpu")
    wait_for(lambda: scene.nodes(cluster) == 0, _LONG_SECONDS, "the cluster to have no node")
    clusters = scene.asked("status")["clusters"]
    paid = [f"{one['cluster']}: {one['allocated']}" for one in clusters if one["allocated"]]
    require(not paid, f"status still shows nodes: {', '.join(paid)}")
    return ["no node on any cluster"]


def look_at_curves(scene: Scene) -> Found:
    """Have TensorBoard read the run from blob storage."""
    command = [sys.executable, "-m", "jobs", "tensorboard", RUN, "--port", "0", "--json"]
    command += ["--reload-seconds", "1", "--stack", scene.stack.stack]
    answer, process = scene.shell.serve(command)
    wanted = len(scene.learnt.attempts)
    try:
        address = _address(process, answer)
        wait_for(
            lambda: len(_runs(address)) >= wanted,
            _LONG_SECONDS,
            f"TensorBoard at {address} to show all attempts",
        )
        shown = _runs(address)
        tags = json.loads(_page(f"{address}data/plugin/scalars/tags"))
    finally:
        process.terminate()
        process.wait(_LONG_SECONDS)
    curves = sorted({tag for run in tags.values() for tag in run})
    return [f"{len(curves)} curves of {len(shown)} attempts"]


def _address(process: subprocess.Popen[str], answer: Path) -> str:
    def told() -> bool:
        if process.poll() is not None:
            raise CommandError(["TensorBoard has ended before it answered"], answer)
        return answer.read_text(encoding="utf-8").rstrip().endswith("}")

    wait_for(told, _LONG_SECONDS, "TensorBoard to start")
    return str(json.loads(answer.read_text(encoding="utf-8"))["address"])


def _runs(address: str) -> list[Any]:
    try:
        found: list[Any] = json.loads(_page(f"{address}data/runs"))
    except OSError:
        # Nobody answers yet, or not to the end.
        return []
    return found


def _page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 (our own address)
        content: bytes = answer.read()
        return content


def download(scene: Scene) -> Found:
    """Fetch model, report and checkpoints."""
    folder = scene.folder / "downloaded"
    scene.jobs("download", RUN, "--to", str(folder), "--checkpoints", "True")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    scene.learnt.accuracy, scene.learnt.examples = result["top1"], result["examples"]
    require((folder / "report.html").is_file(), "there is no report.html in what was downloaded")
    return [f"the job reported top-1 {result['top1']:.2%} on {result['examples']:,} images"]


def evaluate(scene: Scene) -> Found:
    """Evaluate the downloaded model here."""
    said = scene.trainer(
        *("evaluate", "--run", str(scene.folder / "downloaded")),
        *("--data-dir", str(scene.folder / "digits")),
    )
    found = output_parsing.accuracy(said.text)
    wanted = (f"{scene.learnt.accuracy * 100:.2f}", scene.learnt.examples)
    require(found == wanted, f"here it is {found}, and the job reported {wanted}")
    return [f"top-1 {wanted[0]}% on {wanted[1]:,} images: what the job reported"]


def register(scene: Scene) -> Found:
    """Register it as a version of a model."""
    model = scene.asked("register", RUN)
    return [f"model {model['model']}"]
