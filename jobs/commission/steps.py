"""The steps of a commissioning, ascending by cost: what each runs, expects and proves. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Final

from common.text import plural
from jobs.following.cluster_check_result import VERDICTS

KILL: Final = "rank killed"
"""Name of the step that kills a rank."""
CANCEL: Final = "cancel"
"""Name of the step that cancels a run and continues it."""
PREEMPTION: Final = "pre-emption"
"""Name of the step that is not run, but seen if Azure takes nodes away."""
RUNS: Final = ("smoke", "check", "train", "killed", "cancelled")
"""Ends of the keys of its runs, beside those of `scaling`."""
NODES: Final = 2

_PREEMPTED: Final = re.compile(r"interrupted: .*(?:pre-?empt|sooner than idle)", re.IGNORECASE)
_CONTINUES: Final = re.compile(r"continues at step ([\d,]+)")
_STATUS: Final = re.compile(r"(?:status code|exit status) (-?\d+)")
_KILLED: Final = re.compile(
    r"this rank kills itself after step"
    r"|(?:status code|exit status|status) (?:137|-9)\b|\bsignal 9\b|\bSIGKILL\b"
    r"|\branks? (?:was|were) lost\b"
)
"""What the trainer, Azure, mpirun or the rules of resubmission say of a rank that was killed."""


@dataclass(frozen=True)
class Wishes:
    """What is commissioned."""

    name: str
    """Beginning of the keys of all runs."""
    preset: str
    cluster: str | None
    data: str | None
    """NAME:VERSION of a registered data set; None leaves out what trains on it."""
    steps: int
    """Steps of a training."""
    program: tuple[str, ...]
    """Options of the trainer."""
    training: tuple[str, ...] = ()
    """Further ones of the trainings on the data set."""
    more: tuple[str, ...] = ()
    """Options of every `submit`."""
    scaling: tuple[str, ...] = ()
    """Options of `scaling`."""
    tries: Mapping[str, int] = field(default_factory=dict)
    """Earlier tries of a step that were different, by its name."""

    @property
    def save_every(self) -> int:
        """Steps between two checkpoints of a training."""
        return max(self.steps // 20, 1)

    @property
    def killed_at(self) -> int:
        """Step after which a rank is killed: some checkpoints are in storage by then."""
        return 3 * self.save_every


@dataclass(frozen=True)
class Output:
    """What a command has printed."""

    status: int
    answer: Any
    """Its JSON document; None if it printed none."""
    text: str
    """Its progress and notes."""

    @property
    def reason(self) -> str:
        """How a followed run ended, or the last line of the notes."""
        if isinstance(self.answer, dict) and "reason" in self.answer:
            return str(self.answer["reason"])
        lines = [line for line in self.text.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"status {self.status}"


@dataclass(frozen=True)
class Finding:
    """What a step has found."""

    good: bool
    """Whether it is as expected."""
    text: str
    guess: bool | None = None
    """Whether the guess was right; None if that was not seen."""


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str
    command: tuple[str, ...]
    """Arguments of `python -m jobs`."""
    hours: float
    """Node hours at most."""
    expected: str
    source: str
    """Document that says so."""
    find: Callable[[Output], Finding]
    guess: str = ""
    """What the documents call a guess and this step tests; empty if none."""
    needed: bool = False
    """Whether nothing that costs more is run if this is not as expected."""
    run: str | None = None
    """Key of the run that it makes, if it makes one."""


def steps(wishes: Wishes, timeout_hours: float, attempts: int) -> list[Step]:
    """Return the steps, ascending by cost.

    Args:
        wishes: What is commissioned.
        timeout_hours: Hours after which a job is cancelled.
        attempts: Most attempts of a run.
    """
    cluster = ("--cluster", wishes.cluster) if wishes.cluster else ()
    two, tries = ("--nodes", str(NODES)), ("--resubmit.attempts", str(attempts))
    limits = ("--timeout-hours", f"{timeout_hours:g}", *tries)
    # What trains on no data has to end sooner.
    soon = f"{timeout_hours / 2:g}"
    short, hours = ("--timeout-hours", soon, *tries), timeout_hours * attempts
    smoke, check, *_ = (f"{wishes.name}-{end}" for end in RUNS)
    found = [
        Step(
            "preflight",
            ("preflight", "--preset", "synthetic", "--kind", "benchmark", *two, *cluster),
            0.0,
            "sign-in, workspace, run history, storage, cluster and quota answer as the commands"
            " read them",
            "docs/train-on-azure.md, Check that a run can start",
            _preflight,
            "names and types of quotas are those of the REST definitions (docs/stand-in.md, quota)",
            needed=True,
        ),
        Step(
            "smoke job",
            ("submit", "--kind", "smoke", "--name", smoke, *short, *wishes.more,
             "--", "--epochs", "3"),
            hours / 2,
            "the image is built, nodes are allocated, the training completes, its result is read",
            "docs/first-training-on-azure.md",
            _completed,
            "states, messages and logs are those of the stand-in (docs/stand-in.md, states, logs)",
            needed=True,
            run=smoke,
        ),
        Step(
            "cluster check",
            ("submit", "--kind", "check", "--name", check, *two, *cluster, *short, *wishes.more),
            NODES * hours / 2,
            "NCCL uses InfiniBand on all nodes, at 80 % or more of the published bandwidth",
            "docs/train-on-azure.md, --check-cluster",
            _checked,
            "mpirun starts the ranks of all nodes without more options"
            " (docs/when-something-fails.md)",
            run=check,
        ),
        Step(
            "scaling",
            ("scaling", "--name", wishes.name, "--nodes", "1", str(NODES), "--yes",
             "--preset", wishes.preset, "--timeout-hours", soon,
             "--attempts", str(attempts), *(("--series", wishes.cluster) if wishes.cluster else ()),
             *wishes.scaling, "--", *wishes.program),
            (1 + NODES) * hours / 2,
            "images/s on one and two nodes lie in the ranges that were predicted",
            "docs/plan.md, How well this predicts",
            _scaled,
            "published throughput of the GPUs holds on Azure's nodes (docs/plan.md)",
        ),
        Step(
            "plan",
            ("plan", "--preset", wishes.preset, "--nodes", "1", str(NODES), "--page",
             f"build/commission/{wishes.name}-plan.html", "--", *wishes.program),
            0.0,
            "a plan of the stack rests on the points that were measured",
            "docs/plan.md, Measure it",
            _planned,
        ),
    ]  # fmt: skip
    if wishes.data is not None:
        found += _trainings(wishes, wishes.data, (*two, *cluster, *limits, *wishes.more), hours)
    return found


def _trainings(wishes: Wishes, data: str, options: Sequence[str], hours: float) -> list[Step]:
    """Return the steps that train on a data set."""

    def submit(run: str, *more: str) -> tuple[str, ...]:
        return (
            *("submit", "--preset", wishes.preset, "--data.asset", data, "--name", run, *options),
            *(*more, "--", "--max-steps", str(wishes.steps), "--export", "False"),
            *("--checkpoint.every-steps", str(wishes.save_every), *wishes.program),
            *wishes.training,
        )

    *_, trained, killed, cancelled = (f"{wishes.name}-{end}" for end in RUNS)
    # Nothing is left to kill or to cancel of a run that has continued or completed.
    killed += _again(wishes.tries.get(KILL, 0))
    cancelled += _again(wishes.tries.get(CANCEL, 0))
    return [
        Step(
            "training",
            submit(trained),
            NODES * hours,
            "a short training reads the registered data set through its mount, and completes",
            "docs/train-on-azure.md",
            _completed,
            "the identity of the cluster reads and writes what it should (docs/stand-in.md, roles)",
            run=trained,
        ),
        Step(
            KILL,
            submit(killed, "--variables", f"TRAINER_KILL_RANK=1:{wishes.killed_at}"),
            NODES * hours,
            f"rank 1 is killed after step {wishes.killed_at}; the others end, and the run continues"
            " from a checkpoint, or the reason says why it was not submitted again",
            "docs/jobs.md, When a run is submitted again",
            _killed,
            "the exit status of the program is in Azure's message (docs/stand-in.md, failure)",
            run=killed,
        ),
        Step(
            CANCEL,
            submit(cancelled),
            2 * NODES * hours,
            "a cancelled job saves its state; the same `submit` continues it and completes",
            "docs/train-on-azure.md, cancel; docs/jobs.md",
            partial(_continued, wishes.save_every),
            "the ranks get SIGTERM and some seconds before they are killed (docs/stand-in.md,"
            " cancel)",
            run=cancelled,
        ),
    ]


def _again(tries: int) -> str:
    """Return the end of the key of a run that begins anew after some tries."""
    return f"-{tries + 1}" if tries else ""


def preempted(outputs: Mapping[str, str]) -> Finding | None:
    """Return what was seen of a real pre-emption in the notes of all steps; None if none was."""
    for name, text in outputs.items():
        for line in text.splitlines():
            if _PREEMPTED.search(line):
                return Finding(good=True, text=f"{name}: {line.strip()}", guess=True)
    return None


def _preflight(output: Output) -> Finding:
    checks = output.answer if isinstance(output.answer, list) else []
    failed = [f"{one['name']}: {one['text']}" for one in checks if one["good"] is False]
    if not checks:
        return Finding(good=False, text=output.reason)
    unknown = [one["name"] for one in checks if one["good"] is None]
    text = f"{len(checks) - len(failed)} of {plural(len(checks), 'check')} passed"
    if unknown:
        text += f"; Azure did not answer about {', '.join(unknown)}"
    good = output.status == 0
    return Finding(good, "; ".join([text, *failed]), "quota" not in unknown if good else None)


def _completed(output: Output) -> Finding:
    good = output.status == 0
    return Finding(good, _words(output), True if good else None)


def _checked(output: Output) -> Finding:
    *before, last = output.text.splitlines() or [""]
    if last not in VERDICTS.values():
        # `follow`, which goes on with an interrupted step, does not read what was measured.
        unread = "; what it measured was not read" if output.status == 0 else ""
        return Finding(good=False, text=f"{_words(output)}{unread}")
    lines = [line.strip() for line in takewhile(_is_detail, reversed(before))][::-1]
    return Finding(output.status == 0, "; ".join(lines), guess=True)


def _is_detail(line: str) -> bool:
    return line.startswith("  ")


def _scaled(output: Output) -> Finding:
    answer = output.answer if isinstance(output.answer, dict) else {}
    points = answer.get("points", [])
    if not points:
        problems = [
            f"{plural(one['nodes'], 'node')}: {one['problem']}"
            for one in answer.get("not_used", [])
        ]
        return Finding(good=False, text="; ".join(problems) or output.reason)
    known = [one["place"] for one in points if one["place"]]
    inside = all(place == "inside" for place in known)
    text = "; ".join(
        f"{plural(one['nodes'], 'node')}: {one['images_per_s'][1]:,.1f} images/s"
        f" ({one['place'] + ' its prediction' if one['place'] else 'nothing was predicted'})"
        for one in points
    )
    good = output.status == 0 and inside
    return Finding(good, text, inside if known else None)


def _planned(output: Output) -> Finding:
    choices = output.answer.get("choices", []) if isinstance(output.answer, dict) else []
    bases = {plural(one["nodes"], "node"): one["basis"] for one in choices}
    text = ", ".join(f"{nodes}: {basis}" for nodes, basis in bases.items()) or output.reason
    return Finding(any(basis == "measured" for basis in bases.values()), text)


def _killed(output: Output) -> Finding:
    answer = output.answer if isinstance(output.answer, dict) else {}
    attempts = int(answer.get("attempts", 0))
    said = f"{output.text}\n{output.reason}"
    if not _KILLED.search(said):
        # Another error says nothing about a killed rank, nor does a pre-emption before it.
        return Finding(good=False, text=f"{_words(output)}; nothing says that a rank was killed")
    at, told = _CONTINUES.search(output.text), bool(_STATUS.search(said))
    if output.status == 0 and attempts > 1 and at:
        return Finding(
            good=True, text=f"{_words(output)}; it continued at step {at[1]}", guess=told
        )
    ended = output.status != 0
    return Finding(ended, _words(output), told if ended else None)


def _continued(save_every: int, output: Output) -> Finding:
    at = _CONTINUES.search(output.text)
    if at is None:
        began = "; it began at the first step" if output.status == 0 else ""
        return Finding(good=False, text=f"{_words(output)}{began}")
    step = int(at[1].replace(",", ""))
    saved = step % save_every != 0
    text = f"{_words(output)}; it continued at step {step:,}"
    return Finding(output.status == 0, text, True if saved else None)


def _words(output: Output) -> str:
    answer = output.answer if isinstance(output.answer, dict) else {}
    attempts = answer.get("attempts")
    return f"{output.reason}, {plural(attempts, 'attempt')}" if attempts else output.reason
