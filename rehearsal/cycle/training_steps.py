"""Steps of a run: from images to a registered model, with a pre-emption in between."""

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

from azure.storage.blob import ContainerClient

from rehearsal.cycle import observations
from rehearsal.cycle.commands import CommandError
from rehearsal.cycle.context import CycleContext, Findings, require, require_within
from rehearsal.errors import RehearsalError
from rehearsal.page.record import Attempt

RUN: Final = "rehearsal"
LOOKED_INTO: Final = "looked-into"
NODES: Final = 2
_SAVED_STEPS: Final = 40
"""Step from which the job is pre-empted: a checkpoint is saved, and more than half is still to
do."""
_SMALL: Final = (
    *("--model.depth", "18", "--model.width", "8", "--model.image-size", "8"),
    *("--checkpoint.every-steps", "20", "--log.every-steps", "10", "--restarts", "0"),
)
"""Options that make the digits preset smaller: the rehearsal is not about accuracy."""
_CHECKPOINT: Final = re.compile(r"/step-(\d+)[^/]*/DONE")
_TIMEOUT_SECONDS: Final = 180.0


def preflight(context: CycleContext) -> Findings:
    """Check that a training can start."""
    checks = context.jobs_json("preflight", "--preset", "digits", "--nodes", str(NODES))
    unknown = [check["name"] for check in checks if not check["good"]]
    require(len(checks) > 1 and not unknown, f"of {len(checks)} checks, {unknown} are not ok")
    return [f"{len(checks)} checks, all ok"]


def prepare(context: CycleContext) -> Findings:
    """Prepare a data set as shards."""
    folder = context.folder / "digits"
    context.trainer("prepare", "digits", "--output", str(folder))
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    images = {name: sum(split["class_counts"]) for name, split in manifest["splits"].items()}
    return [", ".join(f"{count:,} images to {name}" for name, count in images.items())]


def upload(context: CycleContext) -> Findings:
    """Upload the data set to the container for prepared data."""
    answer = context.jobs_json("upload", str(context.folder / "digits"), "--to", "prepared/digits")
    context.facts.data_set = answer["asset"]
    return [f"registered as {context.facts.data_set}"]


def train(context: CycleContext) -> Findings:
    """Train on two nodes, which are pre-empted midway."""
    preemption = _Preemption(context)
    preemption.start()
    try:
        context.jobs(
            "submit",
            *("--preset", "digits", "--nodes", str(NODES), "--name", RUN),
            *("--data.asset", context.facts.data_set),
            *("--poll-seconds", "0.5", "--resubmit.backoff-seconds", "1"),
            *("--", *_SMALL, "--epochs", "6", "--evaluation.every-epochs", "3"),
            live=True,
        )
    finally:
        preemption.stop()
    attempts, saved = observations.attempts(context.azure), preemption.saved_step
    require(saved > 0, "the nodes were not pre-empted: the training ended first")
    require(
        [attempt.status for attempt in attempts] == ["Failed", "Completed"],
        "expected a failed and a completed attempt, found "
        + ", ".join(f"{result.job} {result.status}" for result in attempts),
    )
    require(
        "PreemptionError" in attempts[0].reason,
        f"expected a PreemptionError, found {attempts[0].reason}",
    )
    events = _events(context, RUN)
    starts = [event["step"] for event in events if event["event"] == "start"]
    require(
        len(starts) == len(attempts) and starts[-1] >= saved,
        f"a checkpoint of step {saved} was saved, but the attempts started at steps {starts}",
    )
    (last_step,) = (event["step"] for event in events if event["event"] == "finish")
    notices = [f"{RUN}/1/resubmitted", f"{RUN}/2/completed"]
    require(
        context.webhook.ids == notices, f"expected notices {notices}, got {context.webhook.ids}"
    )
    context.facts.attempts = _with_steps(attempts, starts[-1], last_step)
    return [
        f"pre-empted after the checkpoint of step {saved}",
        f"resubmitted as {attempts[1].job}, resumed at step {starts[-1]}, completed",
        f"{len(notices)} notices have reached the webhook",
        *_metrics(context, attempts[1].job, last_step),
    ]


def _metrics(context: CycleContext, job: str, last_step: int) -> Findings:
    """Check that all metrics of a job have reached the workspace."""
    metrics = context.azure.mlflow.metrics(f"{context.workspace}/jobs/{job}")
    for name in ("train/loss", "evaluation/top1"):
        steps = [value["step"] for value in metrics.get(name, [])]
        require(
            steps != [] and steps[-1] == last_step,
            f"{name} in the workspace has steps {steps}, expected them to end at {last_step}",
        )
    return [f"{len(metrics)} metrics in the workspace, up to step {last_step}"]


class _Preemption(threading.Thread):
    """Pre-empts the first attempt once enough steps are saved."""

    def __init__(self, context: CycleContext) -> None:
        super().__init__(name="pre-emption", daemon=True)
        self._context, self._stopped = context, threading.Event()
        self.saved_step = 0
        """Newest step with a complete checkpoint in storage; 0 before the pre-emption."""
        self._failure: Exception | None = None

    def stop(self) -> None:
        """Stop waiting.

        Raises:
            RehearsalError: an error kept it from pre-empting the job.
        """
        self._stopped.set()
        self.join()
        if self._failure is not None:
            raise RehearsalError(f"the job could not be pre-empted: {self._failure!r}")

    def run(self) -> None:
        """Wait until enough steps are saved, then pre-empt the job."""
        try:
            self._preempt()
        except Exception as error:  # noqa: BLE001
            # Kept for `stop`: otherwise it would look as if the training had ended too early.
            self._failure = error

    def _preempt(self) -> None:
        azure, job = self._context.azure, f"{self._context.workspace}/jobs/{RUN}-r1"
        while not self._stopped.wait(0.1):
            if azure.runs.get(job)["status"] != "Running":
                continue
            saved = _saved_step(self._context, RUN)
            if saved >= _SAVED_STEPS:
                self.saved_step = saved
                azure.admin.preempt(job=job)
                return


def _saved_step(context: CycleContext, run: str) -> int:
    """Return the newest step of a run with a complete checkpoint in storage; 0 without one."""
    blobs, folder = _results(context, run)
    names = blobs.list_blob_names(name_starts_with=f"{folder}/checkpoints/")
    return max((int(step) for name in names for step in _CHECKPOINT.findall(name)), default=0)


def _events(context: CycleContext, run: str) -> list[Any]:
    """Return the lines of a run's metrics.jsonl in storage."""
    blobs, folder = _results(context, run)
    lines = blobs.download_blob(f"{folder}/metrics.jsonl").readall().splitlines()
    return [json.loads(line) for line in lines]


def _results(context: CycleContext, run: str) -> tuple[ContainerClient, str]:
    """Return the container of the results, and the folder of a run in it."""
    store = context.facts.outputs["datastores"]["results"]
    return context.azure.blobs.container(store["account"], store["container"]), (
        f"runs/{run}/{run}"
    )


def _with_steps(attempts: Sequence[Attempt], continued: int, last_step: int) -> tuple[Attempt, ...]:
    """Return the attempts with the training steps that were kept."""
    first, last = attempts
    return (
        replace(first, first_step=1, last_step=continued),
        replace(last, first_step=continued + 1, last_step=last_step),
    )


def look_into(context: CycleContext) -> Findings:
    """Show what the ranks of a running training do, and cancel it."""
    context.jobs(
        "submit",
        *("--preset", "digits", "--nodes", str(NODES), "--name", LOOKED_INTO, "--no-follow"),
        *("--data.asset", context.facts.data_set),
        *("--", *_SMALL, "--epochs", "99999", "--evaluation.every-epochs", "0"),
    )
    require_within(
        lambda: _saved_step(context, LOOKED_INTO) > 0,
        _TIMEOUT_SECONDS,
        "the training to save its state",
    )
    stacks = context.jobs_json("stacks", LOOKED_INTO)
    require(
        sorted(state["rank"] for state in stacks["ranks"]) == list(range(NODES)),
        f"expected the stacks of {NODES} ranks, found {stacks}",
    )
    context.jobs("cancel", LOOKED_INTO)
    return [f"the stacks of {NODES} ranks while they train: {stacks['summary']}"]


def scale_down(context: CycleContext) -> Findings:
    """Wait until no node is billed."""
    cluster = context.cluster("gpu")
    require_within(
        lambda: observations.allocated_nodes(context.azure, cluster) == 0,
        _TIMEOUT_SECONDS,
        "the cluster to scale to zero nodes",
    )
    clusters = context.jobs_json("status")["clusters"]
    paid = [f"{row['cluster']}: {row['allocated']}" for row in clusters if row["allocated"]]
    require(not paid, f"status still shows nodes: {', '.join(paid)}")
    return ["zero nodes on every cluster"]


def costs(context: CycleContext) -> Findings:
    """Show what the run has cost."""
    groups = context.jobs_json("cost")["groups"]
    run = next((group for group in groups if group["name"] == RUN), None)
    require(run is not None and len(run["jobs"]) == 2, f"expected {RUN}, found {groups}")
    assert run is not None
    require(run["complete"] and run["amounts"], f"the price of some attempt is unknown: {run}")
    amounts = [f"{amount:.4f} {currency}" for currency, amount in run["amounts"].items()]
    return [f"{run['node_seconds']:.0f} s of nodes cost about {' + '.join(amounts)}"]


def look_at_curves(context: CycleContext) -> Findings:
    """Show the run in TensorBoard, which reads it from blob storage."""
    command = [sys.executable, "-m", "jobs", "tensorboard", RUN, "--port", "0", "--json"]
    command += ["--reload-seconds", "1", "--stack", context.stack.stack]
    answer, process = context.commands.serve(command)
    attempts = len(context.facts.attempts)
    try:
        address = _address(process, answer)
        require_within(
            lambda: len(_runs(address)) >= attempts,
            _TIMEOUT_SECONDS,
            f"TensorBoard at {address} to show all attempts",
        )
        shown = _runs(address)
        tags = json.loads(_get(f"{address}data/plugin/scalars/tags"))
    finally:
        process.terminate()
        process.wait(_TIMEOUT_SECONDS)
    curves = sorted({tag for run in tags.values() for tag in run})
    return [f"{len(curves)} curves of {len(shown)} attempts"]


def _address(process: subprocess.Popen[str], answer: Path) -> str:
    def answered() -> bool:
        if process.poll() is not None:
            raise CommandError(["TensorBoard exited before it printed its address"], answer)
        return answer.read_text(encoding="utf-8").rstrip().endswith("}")

    require_within(answered, _TIMEOUT_SECONDS, "TensorBoard to start")
    return str(json.loads(answer.read_text(encoding="utf-8"))["address"])


def _runs(address: str) -> list[Any]:
    try:
        runs: list[Any] = json.loads(_get(f"{address}data/runs"))
    except OSError:
        # TensorBoard does not answer yet, or the answer was cut off.
        return []
    return runs


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as response:  # noqa: S310 (our own address)
        content: bytes = response.read()
        return content


def download(context: CycleContext) -> Findings:
    """Download model, report and checkpoints."""
    folder = context.folder / "downloaded"
    context.jobs("download", RUN, "--to", str(folder), "--checkpoints", "True")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    context.facts.accuracy, context.facts.examples = result["top1"], result["examples"]
    require((folder / "report.html").is_file(), f"{folder}/report.html was not downloaded")
    return [f"the job reported top-1 {result['top1']:.2%} on {result['examples']:,} images"]


def evaluate(context: CycleContext) -> Findings:
    """Evaluate the downloaded model on this machine."""
    here = context.trainer_json(
        *("evaluate", "--run", str(context.folder / "downloaded")),
        *("--data-dir", str(context.folder / "digits")),
    )
    result = (here["top1"], here["examples"])
    reported = (context.facts.accuracy, context.facts.examples)
    require(result == reported, f"top-1 and images are {result}, but the job reported {reported}")
    return [f"top-1 {result[0]:.2%} on {result[1]:,} images, as the job reported"]


def register(context: CycleContext) -> Findings:
    """Register the model as a new version."""
    model = context.jobs_json("register", RUN)
    return [f"model {model['model']}"]
