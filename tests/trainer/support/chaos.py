"""A run that is disturbed repeatedly, and compared with one that is not.

A run with 2 ranks, or with another number each time, is started as a user would start it. A rank
or the launcher receives SIGKILL, SIGTERM or SIGSTOP while it starts, takes steps, saves or
evaluates: each signal in each of these phases at least once, then at random. If the launcher
restarts the run by itself, this only watches; if the run has ended, it runs the same command again.
A stopped launcher is continued after some seconds, because nothing else would; a stopped rank never
is.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import product
from signal import Signals
from typing import Literal, get_args

import psutil

from common.waiting import wait_until
from tests import ROOT
from trainer.checkpoints.format import DONE, STATE
from trainer.distributed.watchdog import HeartbeatFiles
from trainer.errors import STOP_STATUSES

RANKS = 2
Phase = Literal["start-up", "step", "save", "evaluation"]
SIGNALS = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGSTOP)
TARGETS = ("rank 0", "rank 1", "launcher")
PHASES = get_args(Phase)
OPTIONS = (
    *("train", "--export", "False"),
    *("--log.report", "False", "--checkpoint.every-steps", "10", "--log.every-steps", "5"),
)
WATCHDOG = ("--watchdog.step-seconds", "5", "--watchdog.startup-seconds", "40")
TRAININGS = {
    "digits": ("--preset", "digits"),
    "segmentation": ("--preset", "scenes", "--model.width", "8"),
    "detection": ("--preset", "shapes"),
    "multi-label": ("--preset", "tiles"),
    "head-groups": ("--preset", "digits", "--head.groups", str(RANKS)),
    "averaging": (
        *("--preset", "digits", "--averaging.every", "4"),
        *("--averaging.together-until", "0"),
    ),
    "small": ("--preset", "digits", "--model.depth", "18", "--model.width", "16"),
    "sharded": ("--preset", "digits", "--sharded.state", "True"),
}
"""Options of networks and data, by name."""
ANY = (1, 2, 4)
"""Numbers of ranks of a run that has another one each time."""
VIRTUAL = (
    *("--virtual-ranks.count", str(max(ANY)), "--batch-size", "16"),
    *("--watchdog.step-seconds", "15", "--watchdog.startup-seconds", "120"),
)
"""Options of such a run, which ends with the same bits. Its watchdog waits longer, because four
ranks compile on two cores.
"""
WAKE_SECONDS = 3.0
RESUME_TIMEOUT_SECONDS = 300.0
"""Seconds after which a run that has not resumed counts as failed."""


class WatchedRun:
    """A run that is started, watched, and restarted whenever it ends."""

    def __init__(self, folder, name, options, log, choose=lambda: RANKS):
        self.choose = choose
        self.run = folder / "runs" / name
        self._command = [sys.executable, "-m", "trainer", *options, "--name", name]
        self._folder, self._log = folder, log
        self.process = self._start()

    def again(self):
        """Run the command again."""
        self.process = self._start()

    def again_if_ended(self):
        """Run the command again if it has ended by itself."""
        if self.process.poll() is None:
            return None
        status = self.wait(60)
        if status == 0:
            raise AssertionError("the run finished before the last fault; use more --epochs")
        self.again()
        return status

    def require(self, condition, seconds, what):
        """Wait until a condition holds while the run is running.

        A rank that is asked to stop during start-up takes one step before it stops, so a run may
        still end after it has resumed. Its command is run again, and the time starts anew.
        """
        while True:
            require(lambda: self.process.poll() is not None or condition(), seconds, what)
            if self.again_if_ended() is None:
                return

    def wait(self, seconds):
        """Wait until the launcher ends by itself, and return its exit status; no rank is left."""
        status = self.process.wait(seconds)
        # Ranks whose launcher was killed save and end by themselves.
        require(lambda: not self.ranks(), 60, "the ranks have ended")
        return status

    def ranks(self):
        """Return the process ids of the ranks that are alive."""
        launcher = str(self.process.pid)
        return {
            f"rank {variables['HOROVOD_RANK']}": process.pid
            for process in psutil.process_iter(["environ"])
            if (variables := process.info["environ"] or {}).get("TRAINER_LAUNCHER_PID") == launcher
            and "HOROVOD_RANK" in variables
        }

    def target(self, name):
        """Return the process id of the launcher or a rank; of rank 0 if it is the only one."""
        if name == "launcher":
            return self.process.pid
        return self.ranks().get(name if self.count > 1 else "rank 0")

    def lines(self):
        """Return the lines of the run's metrics.jsonl."""
        try:
            text = (self.run / "metrics.jsonl").read_text()
        except OSError:
            return []
        # The last line may be half written.
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def starts(self):
        """Return the `start` lines of attempts that took a step."""
        return [line for line in self.lines() if line["event"] == "start"]

    def phase(self):
        """Return the phase that rank 0 of the current command reports.

        A single rank shares its state with no other, and only shows that it has taken a step.
        """
        if self.count == 1:
            stepped = any(start["time"] >= self._started for start in self.starts())
            return "train" if stepped else None
        heartbeat, age = HeartbeatFiles(self.run, 0, self.count).read().get(0, (None, 0.0))
        # A command that was killed leaves the file of its ranks.
        fresh = time.time() - age >= self._started
        return heartbeat.phase if heartbeat and fresh else None

    def trains(self):
        """Return whether an attempt has taken a step, and rank 0 reports a phase."""
        return bool(self.starts()) and self.phase() is not None

    def saving(self):
        """Return whether a checkpoint is being written."""
        newest = max((self.run / "checkpoints").glob("step-*"), key=_modified, default=None)
        return newest is not None and not (newest / DONE).exists()

    def kill(self):
        """Kill all remaining processes."""
        for pid in [*self.ranks().values(), self.process.pid]:
            if pid != self.process.pid or self.process.poll() is None:
                os.kill(pid, Signals.SIGKILL)
        self.process.wait()

    def _start(self):
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._started, self.count = time.time(), self.choose()
        command = [*self._command, "--ranks", str(self.count)]
        return subprocess.Popen(
            command, cwd=self._folder, stdout=self._log, stderr=self._log, env=env
        )


def require(condition, seconds, what):
    """Wait until a condition holds; it is checked often, as some phases are short."""
    if not wait_until(condition, seconds, poll_seconds=0.001):
        raise AssertionError(f"waited {seconds:.0f} s in vain until {what}")


def _modified(path):
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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


def plan(seed, kills):
    """Plan the faults: each signal in each phase first, then at random; targets are random."""
    chance = random.Random(seed)
    every = [(signal.name, phase) for signal, phase in product(SIGNALS, PHASES)]
    chance.shuffle(every)
    more = [chance.choice(every) for _ in range(kills - len(every))]
    return [
        Fault(signal, chance.choice(TARGETS), phase) for signal, phase in [*every, *more][:kills]
    ]


def counts(fault):
    """Return the numbers of ranks that a run may have for a fault.

    A single rank does not show when it evaluates, and nothing would notice that it is stopped.
    """
    frozen_rank = fault.signal == "SIGSTOP" and fault.target != "launcher"
    return ANY[1:] if frozen_rank or fault.phase == "evaluation" else ANY


def inject(watched, fault, chance):
    """Wait for the phase, send the signal, and wait until the run has resumed."""
    if fault.phase == "start-up":
        watched.require(lambda: len(watched.ranks()) == watched.count, 60, "all ranks are there")
        # Until TensorFlow is loaded and the ranks connect to each other.
        time.sleep(chance.uniform(0.0, 8.0))
    else:
        watched.require(watched.trains, RESUME_TIMEOUT_SECONDS, "it trains")
        time.sleep(chance.uniform(0.0, 1.5))
        phase = fault.phase
        watched.require(
            lambda: _reached(watched, phase),
            RESUME_TIMEOUT_SECONDS,
            f"it reaches the phase {phase}",
        )
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
            raise AssertionError(
                f"after {fault} the run has not resumed for {RESUME_TIMEOUT_SECONDS:.0f} s"
            )
        time.sleep(0.02)
    recovery = Recovery(fault, step, ended, resumed["step"] + 1, resumed["time"] - sent)
    return recovery if hit else None


def _reached(watched, phase):
    if phase == "save":
        return watched.saving()
    return watched.phase() == {"step": "train"}.get(phase, phase)


def _resumed(watched, attempt, sent, fault):
    """Return the report of the first step after a signal, or None if there is none yet."""
    if fault.target == "launcher" and fault.signal == "SIGSTOP":
        # The ranks continue without their launcher.
        later = [line for line in watched.lines() if line["time"] > sent]
        return later[0] if later else None
    starts = watched.starts()
    return starts[attempt] if len(starts) > attempt else None


def state_hash(run):
    """Return the SHA-256 of the weights and all other variables at the end of a run."""
    newest = json.loads((run / "checkpoints" / "index.json").read_text())["newest"]
    return hashlib.sha256((run / "checkpoints" / newest / STATE).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """Comparison of a disturbed run with an uninterrupted one."""

    recoveries: list[Recovery]
    missed: int
    """Number of signals that came too late for their phase; the run had to survive them as well."""
    undisturbed_state: str
    disturbed_state: str
    """SHA-256 of the final state of the disturbed run."""
    attempts: int
    seconds: tuple[float, float]
    """Seconds of the run without and with disturbances."""


def chaos(folder, seed, kills, extra, say, *, any_ranks=False):
    """Train without disturbance, then disturbed, with any number of ranks each time if asked."""
    chance = random.Random(f"{seed}/times")
    options = [*OPTIONS, *extra, *(VIRTUAL if any_ranks else WATCHDOG)]
    faults = plan(seed, kills)

    def choose_for(fault):
        return (lambda: chance.choice(counts(fault))) if any_ranks else (lambda: RANKS)

    with (folder / "chaos.log").open("wb") as log:
        begin = time.monotonic()
        say("starting the undisturbed run")
        whole = WatchedRun(folder, "whole", options, log)
        if whole.wait(3600):
            raise AssertionError(f"the undisturbed run failed, see {folder}/chaos.log")
        between = time.monotonic()
        say(f"it took {between - begin:.0f} s; starting the disturbed run")
        watched = WatchedRun(folder, "disturbed", options, log, choose_for(faults[0]))
        recoveries, missed = [], 0
        try:
            for fault in faults:
                recovery, watched.choose = None, choose_for(fault)
                while recovery is None:
                    if (fault.phase == "start-up" or any_ranks) and watched.starts():
                        # A fault during start-up, and another number of ranks, need a run that has
                        # ended.
                        os.kill(watched.process.pid, Signals.SIGTERM)
                        watched.wait(60)
                        watched.again()
                    recovery = inject(watched, fault, chance)
                    missed += recovery is None
                recoveries.append(recovery)
                say(f"{len(recoveries):>3} {recovery}")
            status = finish(watched)
        finally:
            watched.kill()
    if status:
        raise AssertionError(f"the disturbed run failed with {status}, see {folder}/chaos.log")
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


def finish(watched):
    """Run the command again as long as it ends because of a stop request: a rank that receives
    SIGTERM during start-up takes one step before it stops, which counts as resumed.
    """
    while (status := watched.wait(3600)) in STOP_STATUSES:
        watched.again()
    return status
