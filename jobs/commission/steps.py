"""The steps of a commissioning, ascending by cost: what each runs, expects and proves. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from common.text import plural
from jobs.commission.options import RUNS, CommissionOptions
from jobs.evictions import evidence
from jobs.following.cluster_check_result import ClusterCheckResult
from jobs.following.resubmit_policy import AttemptResult

KILL: Final = "rank killed"
"""Name of the step that kills a rank."""
CANCEL: Final = "cancel"
"""Name of the step that cancels a run and continues it."""
PREEMPTION: Final = "pre-emption"
"""Name of the step that is not run, but seen if Azure takes nodes away."""
NODES: Final = 2
NOTICES: Final = "scheduled-events.json"
"""File of a run that says whether it reached the service that announces pre-emptions."""
_NOTICES: Final[Mapping[bool | None, str]] = {
    True: "its container reaches the service that announces pre-emptions",
    False: "its container does not reach the service that announces pre-emptions, so a pre-emption"
    " costs the steps since the newest checkpoint",
    None: "whether its container reaches the service that announces pre-emptions was not noted",
}
_SIGKILL: Final = (137, -9)
"""Exit status of a program that was killed, by Azure's shell and by mpirun."""


@dataclass(frozen=True)
class Output:
    """What a command has printed, and what its run has left."""

    status: int
    answer: Any = None
    """Its JSON document; None if it printed none."""
    text: str = ""
    """Its progress and notes."""
    attempts: tuple[AttemptResult, ...] = ()
    """How the attempts of its run have ended."""
    statuses: tuple[int, ...] = ()
    """Exit statuses of the program in Azure's messages about these."""
    starts: tuple[int, ...] = ()
    """Steps at which these began, by metrics.jsonl."""
    check: ClusterCheckResult | None = None
    """Result of a cluster check, by the file that it wrote."""
    notices: bool | None = None
    """Whether its container reached the service that announces pre-emptions; None if unknown."""

    @property
    def reason(self) -> str:
        """How a followed run ended, or the last line of the notes."""
        told, tries = self._of_answer("reason"), self._of_answer("attempts")
        if told is not None:
            return f"{told}, {plural(tries, 'attempt')}" if tries else str(told)
        lines = [line for line in self.text.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"status {self.status}"

    @property
    def continued_at(self) -> int | None:
        """Step at which the last attempt continued; None if it began at the first one."""
        return self.starts[-1] if self.starts and self.starts[-1] > 0 else None

    def items(self, key: str) -> list[Any]:
        """Return a list of its document; empty without one."""
        return list(self._of_answer(key) or ())

    def _of_answer(self, key: str) -> Any:
        return self.answer.get(key) if isinstance(self.answer, dict) else None


@dataclass(frozen=True)
class Finding:
    """What a step has found."""

    good: bool
    """Whether it is as expected."""
    text: str
    guess: bool | None = None
    """Whether the guess was right; None if that was not seen."""


def _completed(output: Output) -> Finding:
    good = output.status == 0
    return Finding(good, output.reason, True if good else None)


def _smoked(output: Output) -> Finding:
    found = _completed(output)
    return replace(found, text=f"{found.text}; {_NOTICES[output.notices]}")


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
    find: Callable[[Output], Finding] = _completed
    guess: str = ""
    """What the documents call a guess and this step tests; empty if none."""
    needed: bool = False
    """Whether nothing that costs more is run if this is not as expected."""
    run: str | None = None
    """Key of the run that it makes, if it makes one."""
    starts: int = 0
    """Nodes that it starts, at most, over all attempts."""

    def node_hours(self, options: CommissionOptions) -> float:
        """Return its node hours at most, with the starts of nodes and the time until they are
        released.
        """
        return self.hours + self.starts * (options.start_minutes + options.idle_minutes) / 60


def _flags(texts: Sequence[str]) -> tuple[str, ...]:
    pairs = (text.partition("=") for text in texts)
    return tuple(word for name, _, value in pairs for word in (f"--{name}", value))


def steps(
    options: CommissionOptions, program: tuple[str, ...], tries: Mapping[str, int]
) -> list[Step]:
    """Return the steps, ascending by cost.

    Args:
        options: What is commissioned.
        program: Options of the trainer.
        tries: Earlier tries of a step that were different, by its name.
    """
    cluster = ("--cluster", options.cluster) if options.cluster else ()
    two, attempts = ("--nodes", str(NODES)), str(options.attempts)
    more = ("--resubmit.attempts", attempts, *_flags(options.submit))
    # What trains on no data has to end sooner.
    soon = f"{options.timeout_hours / 2:g}"
    short, hours = ("--timeout-hours", soon, *more), options.timeout_hours * options.attempts
    smoke, check, *_ = (f"{options.name}-{end}" for end in RUNS)
    tried = options.attempts
    found = [
        Step(
            "preflight",
            ("preflight", "--preset", "synthetic", "--kind", "benchmark", *two, *cluster),
            0.0,
            "sign-in, workspace, run history, storage, cluster and quota answer as the commands"
            " read them",
            "docs/train-on-azure.md, Check that a run can start",
            _preflight,
            "names and types of quotas are those of the REST definitions (docs/simulator.md, "
            "quota)",
            needed=True,
        ),
        *_data_step(options, program, (*two, *cluster)),
        Step(
            "smoke job",
            ("submit", "--kind", "smoke", "--name", smoke, *short,
             "--", "--epochs", "3"),
            hours / 2,
            "the image is built, nodes are allocated, the training completes, its result is read",
            "docs/first-training-on-azure.md",
            find=_smoked,
            guess="states, messages and logs are those of the simulator (docs/simulator.md, states,"
            " logs)",
            needed=True,
            run=smoke,
            starts=tried,
        ),
        Step(
            "cluster check",
            ("submit", "--kind", "check", "--name", check, *two, *cluster, *short),
            NODES * hours / 2,
            "NCCL uses InfiniBand on all nodes, at 80 % or more of the published bandwidth",
            "docs/train-on-azure.md, --check-cluster",
            _checked,
            "mpirun starts the ranks of all nodes without more options"
            " (docs/when-something-fails.md)",
            needed=not options.despite_check,
            run=check,
            starts=NODES * tried,
        ),
        Step(
            "scaling",
            ("scaling", "--name", options.name, "--nodes", "1", str(NODES), "--yes",
             "--preset", options.preset, "--timeout-hours", soon,
             "--attempts", attempts, *(("--series", options.cluster) if options.cluster else ()),
             *_flags(options.scaling), "--", *program),
            (1 + NODES) * hours / 2,
            "images/s on one and two nodes lie in the ranges that were predicted",
            "docs/plan.md, How well this predicts",
            _scaled,
            "published throughput of the GPUs holds on Azure's nodes (docs/plan.md)",
            starts=(1 + NODES) * tried,
        ),
        Step(
            "plan",
            ("plan", "--preset", options.preset, "--nodes", "1", str(NODES), "--page",
             f"build/commission/{options.name}-plan.html", "--", *program),
            0.0,
            "a plan of the stack rests on the points that were measured",
            "docs/plan.md, Measure it",
            _planned,
        ),
    ]  # fmt: skip
    if options.data is None:
        return found
    limits = ("--timeout-hours", f"{options.timeout_hours:g}", *more)

    def submit(run: str, *variables: str) -> tuple[str, ...]:
        return (
            *("submit", "--preset", options.preset, "--data.asset", str(options.data)),
            *("--name", run, *two, *cluster, *limits, *variables, "--"),
            *("--max-steps", str(options.steps), "--export", "False"),
            *("--checkpoint.every-steps", str(options.save_every), *program),
            *_flags(options.training),
        )

    *_, trained, killed, cancelled = (f"{options.name}-{end}" for end in RUNS)
    # Nothing is left to kill or to cancel of a run that has continued or completed.
    killed += _again(tries.get(KILL, 0))
    cancelled += _again(tries.get(CANCEL, 0))
    return [
        *found,
        Step(
            "training",
            submit(trained),
            NODES * hours,
            "a short training reads the registered data set through its mount, and completes",
            "docs/train-on-azure.md",
            guess="the identity of the cluster reads and writes what it should (docs/simulator.md,"
            " roles)",
            run=trained,
            starts=NODES * tried,
        ),
        Step(
            KILL,
            submit(killed, "--variables", f"TRAINER_KILL_RANK=1:{options.killed_at}"),
            NODES * hours,
            f"rank 1 is killed after step {options.killed_at}; the others end, and the run"
            " continues from a checkpoint, or the reason says why it was not submitted again",
            "docs/jobs.md, When a run is submitted again",
            _killed,
            "the exit status of the program is in Azure's message (docs/simulator.md, failure)",
            run=killed,
            starts=NODES * tried,
        ),
        Step(
            CANCEL,
            submit(cancelled),
            2 * NODES * hours,
            "a cancelled job saves its state; the same `submit` continues it and completes",
            "docs/train-on-azure.md, cancel; docs/jobs.md",
            partial(_continued, options.save_every),
            "the ranks get SIGTERM and some seconds before they are killed (docs/simulator.md,"
            " cancel)",
            run=cancelled,
            starts=2 * NODES * tried,
        ),
    ]


def _data_step(
    options: CommissionOptions, program: tuple[str, ...], where: tuple[str, ...]
) -> list[Step]:
    """Return the step that reads the data set's manifest, before anything is paid."""
    if options.data is None:
        return []
    return [
        Step(
            "data set",
            ("preflight", "--preset", options.preset, "--data.asset", options.data, *where, "--",
             "--max-steps", str(options.steps), *program, *_flags(options.training)),
            0.0,
            "the data set is registered and complete, and fits the configuration",
            "docs/train-on-azure.md, Check that a run can start",
            _preflight,
            needed=True,
        )
    ]  # fmt: skip


def _again(tries: int) -> str:
    """Return the end of the key of a run that begins anew after some tries."""
    return f"-{tries + 1}" if tries else ""


def preempted(name: str, attempts: Iterable[AttemptResult]) -> Finding | None:
    """Return what Azure said of nodes that it took from the run of a step; None if it took none."""
    for attempt in attempts:
        message = evidence(attempt.messages) if attempt.status != "Completed" else None
        if message is not None:
            return Finding(good=True, text=f"{name}: {message}", guess=True)
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


def _checked(output: Output) -> Finding:
    if output.check is None:
        unread = "; what it measured was not read" if output.status == 0 else ""
        return Finding(good=False, text=f"{output.reason}{unread}")
    return Finding(output.check.good, "; ".join(output.check.lines), guess=True)


def _scaled(output: Output) -> Finding:
    points = output.items("points")
    if not points:
        problems = [
            f"{plural(one['nodes'], 'node')}: {one['problem']}" for one in output.items("not_used")
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
    bases = {plural(one["nodes"], "node"): one["basis"] for one in output.items("choices")}
    text = ", ".join(f"{nodes}: {basis}" for nodes, basis in bases.items()) or output.reason
    return Finding("measured" in bases.values(), text)


def _killed(output: Output) -> Finding:
    lost = [
        one
        for one in output.attempts
        # A pre-emption before it says nothing about a killed rank.
        if (one.lost or one.exit_code in _SIGKILL) and evidence(one.messages) is None
    ]
    if not lost:
        return Finding(good=False, text=f"{output.reason}; no attempt ended as a killed rank does")
    told = bool(output.statuses)
    if output.status:
        return Finding(good=True, text=output.reason, guess=told)
    at = output.continued_at
    if at is None:
        return Finding(good=False, text=f"{output.reason}; it began at the first step")
    return Finding(good=True, text=f"{output.reason}; it continued at step {at:,}", guess=told)


def _continued(save_every: int, output: Output) -> Finding:
    at = output.continued_at
    if at is None:
        began = "; it began at the first step" if output.status == 0 else ""
        return Finding(good=False, text=f"{output.reason}{began}")
    text = f"{output.reason}; it continued at step {at:,}"
    return Finding(output.status == 0, text, True if at % save_every else None)
