"""Disturb a training repeatedly, and compare its result with that of an undisturbed one.

    make chaos SEED=0 KILLS=20

A run with 2 ranks is started as a user would start it. A rank or the launcher
receives SIGKILL, SIGTERM or SIGSTOP while it starts, takes steps, saves or evaluates: each signal
in each of these phases at least once, then at random. If the launcher restarts the run by itself,
the benchmark only watches; if the run has ended, it runs the same command again. A stopped launcher
is continued after some seconds, because nothing else would; a stopped rank never is.
"""

import hashlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from signal import Signals
from typing import Annotated, Any, Literal, get_args

from benchmarks.faults.watched_run import RANKS, WatchedRun
from benchmarks.measure import BenchmarkOptions, columns, publish
from common.errors import UserError
from trainer.checkpoints.format import STATE
from trainer.config import Positive
from trainer.errors import STOP_STATUSES

Phase = Literal["start-up", "step", "save", "evaluation"]
SIGNALS = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGSTOP)
TARGETS = ("rank 0", "rank 1", "launcher")
PHASES: tuple[Phase, ...] = get_args(Phase)
OPTIONS = (
    *("train", "--ranks", str(RANKS), "--export", "False"),
    *("--log.report", "False", "--checkpoint.every-steps", "10", "--log.every-steps", "5"),
    *("--watchdog.step-seconds", "5", "--watchdog.startup-seconds", "40"),
)
TRAININGS: Mapping[str, tuple[str, ...]] = {
    "digits": ("--preset", "digits"),
    "segmentation": ("--preset", "scenes", "--model.width", "8"),
    "head-groups": ("--preset", "digits", "--head.groups", str(RANKS)),
    "averaging": (
        *("--preset", "digits", "--averaging.every", "4"),
        *("--averaging.together-until", "0"),
    ),
    "sharded": ("--preset", "digits", "--sharded.state", "True"),
}
"""Options of what is trained, by name."""
WAKE_SECONDS = 3.0
RESUME_TIMEOUT_SECONDS = 300.0
"""Seconds after which a run that has not resumed counts as failed."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """A training that repeatedly receives SIGKILL, SIGTERM and SIGSTOP, compared with an
    undisturbed one: how soon it resumes, and whether both end with the same bytes.
    """

    training: Literal["digits", "segmentation", "head-groups", "averaging", "sharded"] = "digits"
    """What is trained: digits as the preset has them, the embedded example of segmentation, or
    digits with a last layer, weights or state that the ranks do not all hold alike."""

    seed: int = 0
    """Seed of the faults."""

    kills: Annotated[int, Positive] = 20
    """Number of signals."""

    epochs: Annotated[int, Positive] = 40
    """Epochs of the training."""


def run(options: Options) -> int:
    """Print the table; return 1 if the final states differ."""
    data = publish("chaos", options, measure, show)
    return int(data["undisturbed_state"] != data["disturbed_state"])


def measure(options: Options) -> dict[str, Any]:
    """Disturb a training."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        extra = [*TRAININGS[options.training], "--epochs", str(options.epochs)]
        return asdict(
            chaos(Path(folder), options.seed, options.kills, extra, partial(print, flush=True))
        )


@dataclass(frozen=True)
class Fault:
    """A signal to send, its target, and when to send it."""

    signal: str
    target: str
    phase: Phase


@dataclass(frozen=True)
class Recovery:
    """A fault that was injected, and how the run recovered."""

    fault: Fault
    step: int
    """Steps done, as last reported."""
    ended: int | None
    """Exit status of the launcher; None if it continued."""
    resumed_at: int
    """First step after the resumption."""
    seconds: float
    """Seconds from the signal until that step was done."""


def plan(seed: int, kills: int) -> list[Fault]:
    """Plan the faults: each signal in each phase first, then at random; targets are random."""
    chance = random.Random(seed)
    every = [(signal.name, phase) for signal, phase in product(SIGNALS, PHASES)]
    chance.shuffle(every)
    more = [chance.choice(every) for _ in range(kills - len(every))]
    return [
        Fault(signal, chance.choice(TARGETS), phase) for signal, phase in [*every, *more][:kills]
    ]


def inject(watched: WatchedRun, fault: Fault, chance: random.Random) -> Recovery | None:
    """Wait for the phase, send the signal, and wait until the run has resumed.

    Returns:
        The recovery; None if the phase was over when the signal came, which then disturbed another
        phase.
    """
    if fault.phase == "start-up":
        watched.require(lambda: len(watched.ranks()) == RANKS, 60, "all ranks are there")
        # Until TensorFlow is loaded and the ranks connect to each other.
        time.sleep(chance.uniform(0.0, 8.0))
    else:
        watched.require(watched.trains, 120, "it trains")
        time.sleep(chance.uniform(0.0, 1.5))
        phase = fault.phase
        watched.require(lambda: _reached(watched, phase), 120, f"it reaches the phase {phase}")
    pid = watched.target(fault.target)
    if pid is None:
        return None
    attempt, sent = len(watched.starts()), time.time()
    try:
        os.kill(pid, Signals[fault.signal])
    except ProcessLookupError:
        return None
    hit = (
        len(watched.starts()) == attempt
        if fault.phase == "start-up"
        else _reached(watched, fault.phase)
    )
    lines = watched.lines()
    step = lines[-1]["step"] if lines else 0
    ended = None
    if fault.target == "launcher" and fault.signal == "SIGSTOP":
        time.sleep(WAKE_SECONDS)
        os.kill(pid, Signals.SIGCONT)
    deadline = time.monotonic() + RESUME_TIMEOUT_SECONDS
    while True:
        status = watched.again_if_ended()
        ended = ended if status is None else status
        resumed = _resumed(watched, attempt, sent, fault)
        if resumed:
            break
        if time.monotonic() > deadline:
            raise UserError(
                f"after {fault} the run has not resumed for {RESUME_TIMEOUT_SECONDS:.0f} s"
            )
        time.sleep(0.02)
    recovery = Recovery(fault, step, ended, resumed["step"] + 1, resumed["time"] - sent)
    return recovery if hit else None


def _reached(watched: WatchedRun, phase: Phase) -> bool:
    if phase == "save":
        return watched.saving()
    return watched.phase() == {"step": "train"}.get(phase, phase)


def _resumed(watched: WatchedRun, attempt: int, sent: float, fault: Fault) -> dict[str, Any] | None:
    """Return the report of the first step after a signal, or None if there is none yet."""
    if fault.target == "launcher" and fault.signal == "SIGSTOP":
        # The ranks continue without their launcher.
        later = [line for line in watched.lines() if line["time"] > sent]
        return later[0] if later else None
    starts = watched.starts()
    return starts[attempt] if len(starts) > attempt else None


def state_hash(run: Path) -> str:
    """Return the SHA-256 of the weights and all other variables at the end of a run."""
    newest = json.loads((run / "checkpoints" / "index.json").read_text())["newest"]
    return hashlib.sha256((run / "checkpoints" / newest / STATE).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """Comparison of a disturbed run with an undisturbed one."""

    recoveries: list[Recovery]
    missed: int
    """Number of signals that came too late for their phase; the run had to survive them as well."""
    undisturbed_state: str
    disturbed_state: str
    """SHA-256 of the final state of the disturbed run."""
    attempts: int
    seconds: tuple[float, float]
    """Seconds of the run without and with disturbances."""


def chaos(
    folder: Path, seed: int, kills: int, extra: Sequence[str], say: Callable[[str], None]
) -> Comparison:
    """Run a training undisturbed, then disturbed.

    Args:
        folder: Folder of the runs; the console output of both is written to chaos.log in it.
        seed: Seed of the faults.
        kills: Number of signals.
        extra: Options of the training.
        say: Function that prints progress.
    """
    chance = random.Random(f"{seed}/times")
    options = [*OPTIONS, *extra]
    with (folder / "chaos.log").open("wb") as log:
        begin = time.monotonic()
        say("starting the undisturbed run")
        whole = WatchedRun(folder, "whole", options, log)
        if whole.wait(3600):
            raise UserError(f"the undisturbed run failed, see {folder}/chaos.log")
        between = time.monotonic()
        say(f"it took {between - begin:.0f} s; starting the disturbed run")
        watched = WatchedRun(folder, "disturbed", options, log)
        recoveries, missed = [], 0
        try:
            for fault in plan(seed, kills):
                recovery = None
                while recovery is None:
                    if fault.phase == "start-up" and watched.starts():
                        # A fault during start-up needs a run that has ended.
                        os.kill(watched.process.pid, Signals.SIGTERM)
                        watched.wait(60)
                        watched.again()
                    recovery = inject(watched, fault, chance)
                    missed += recovery is None
                recoveries.append(recovery)
                say(
                    f"{len(recoveries):>3} {fault.signal} to {fault.target}, {fault.phase}: "
                    + describe(recovery)
                )
            status = finish(watched)
        finally:
            watched.kill()
    if status:
        raise UserError(f"the disturbed run failed with status {status}, see {folder}/chaos.log")
    end = time.monotonic()
    result = json.loads((watched.run / "result.json").read_text())
    return Comparison(
        recoveries,
        missed,
        state_hash(whole.run),
        state_hash(watched.run),
        result["attempts"],
        (between - begin, end - between),
    )


def finish(watched: WatchedRun) -> int:
    """Run the command again as long as it ends because of a stop request: a rank that receives
    SIGTERM during start-up takes one step before it stops, which counts as resumed.

    Returns:
        The exit status of the last command.
    """
    while (status := watched.wait(3600)) in STOP_STATUSES:
        watched.again()
    return status


def describe(recovery: Recovery) -> str:
    """Describe a recovery in words."""
    how = "continued" if recovery.ended is None else f"ended with {recovery.ended}, was restarted"
    return f"{how}; step {recovery.resumed_at:,} after {recovery.seconds:.1f} s"


def table(recoveries: Sequence[Recovery]) -> str:
    """Format a table of the faults and recoveries."""
    rows = [["", "signal", "to", "in", "after step", "the command", "took step", "after, s"]]
    for number, recovery in enumerate(recoveries, 1):
        ended = "continued" if recovery.ended is None else f"ended with {recovery.ended}"
        fault = recovery.fault
        signal = [str(number), fault.signal, fault.target, fault.phase]
        resumed = [f"{recovery.resumed_at:,}", f"{recovery.seconds:.1f}"]
        rows.append([*signal, f"{recovery.step:,}", ended, *resumed])
    return columns(rows)


def show(data: Mapping[str, Any]) -> str:
    """Format the table and the comparison from the content of a result file."""
    recoveries = [
        Recovery(**{**recovery, "fault": Fault(**recovery["fault"])})
        for recovery in data["recoveries"]
    ]
    states = data["undisturbed_state"], data["disturbed_state"]
    before, after = data["seconds"]
    return (
        f"{table(recoveries)}\n\nSeed {data['options']['seed']}, {len(recoveries)} signals (and"
        f" {data['missed']} that came too late for their phase), {data['attempts']} attempts that"
        f" took a step; {before:.0f} s undisturbed, {after:.0f} s disturbed. The final states are"
        f" {'the same, byte for byte' if states[0] == states[1] else 'NOT the same'}: SHA-256"
        f" {states[0][:16]}… and {states[1][:16]}…"
    )
