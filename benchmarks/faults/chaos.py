"""Disturb a training again and again, and compare its end with that of one that was left alone.

    make chaos SEED=0 KILLS=20

A run of the digits preset with 2 ranks is started as a person would. A rank or the launcher gets
SIGKILL, SIGTERM or SIGSTOP while it starts, takes steps, saves or evaluates: each signal in each of
these phases at least once, then at random. Where the launcher starts the run again by itself it is
left to it; where the run has ended, the same command is given again. A launcher that is stopped is
woken after some seconds, as nobody else could; a rank that is stopped never is.
"""

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from signal import Signals
from typing import Any, Literal, get_args

from benchmarks.faults.victim import RANKS, Victim, wait_until
from benchmarks.measure import columns, write_json
from trainer.checkpoints.format import STATE
from trainer.diagnostics.environment import environment
from trainer.errors import STOP_STATUSES

Phase = Literal["start-up", "step", "save", "evaluation"]
SIGNALS = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGSTOP)
TARGETS = ("rank 0", "rank 1", "launcher")
PHASES: tuple[Phase, ...] = get_args(Phase)
OPTIONS = (
    *("train", "--preset", "digits", "--ranks", str(RANKS), "--export", "False"),
    *("--log.report", "False", "--checkpoint.every-steps", "10", "--log.every-steps", "5"),
    *("--watchdog.step-seconds", "5", "--watchdog.startup-seconds", "40"),
)
WAKE_SECONDS = 3.0
PATIENCE_SECONDS = 300.0
"""A run that has not resumed after so long never will."""


@dataclass(frozen=True)
class Blow:
    """What is to be done to whom, and when."""

    signal: str
    target: str
    phase: Phase


@dataclass(frozen=True)
class Struck:
    """What was done, and what came of it."""

    blow: Blow
    step: int
    """Steps done, as last reported."""
    ended: int | None
    """Exit status of the launcher; none if it went on."""
    resumed_at: int
    """The first step that was taken again."""
    seconds: float
    """From the signal until that step was done."""


def plan(seed: int, kills: int) -> list[Blow]:
    """Each signal in each phase, as far as they go; then at random. To whom is left to chance."""
    chance = random.Random(seed)
    every = [(signal.name, phase) for signal, phase in product(SIGNALS, PHASES)]
    chance.shuffle(every)
    more = [chance.choice(every) for _ in range(kills - len(every))]
    return [
        Blow(signal, chance.choice(TARGETS), phase) for signal, phase in [*every, *more][:kills]
    ]


def strike(victim: Victim, blow: Blow, chance: random.Random) -> Struck | None:
    """Wait for the phase, send the signal, and wait until the run has resumed.

    Returns:
        What happened; none if the phase was over when the signal came, which then disturbed another
        one.
    """
    if blow.phase == "start-up":
        wait_until(lambda: len(victim.ranks()) == RANKS, 60, "all ranks are there")
        # Up to where TensorFlow is loaded and the ranks look for each other.
        time.sleep(chance.uniform(0.0, 8.0))
    else:
        wait_until(
            lambda: len(victim.starts()) > 0 and victim.phase() is not None, 120, "it trains"
        )
        time.sleep(chance.uniform(0.0, 1.5))
        wait_until(lambda: _reached(victim, blow.phase), 120, f"it reaches the phase {blow.phase}")
    pid = victim.target(blow.target)
    if pid is None:
        return None
    attempt, sent = len(victim.starts()), time.time()
    os.kill(pid, Signals[blow.signal])
    hit = (
        len(victim.starts()) == attempt
        if blow.phase == "start-up"
        else _reached(victim, blow.phase)
    )
    lines = victim.lines()
    step = lines[-1]["step"] if lines else 0
    ended = None
    if blow.target == "launcher" and blow.signal == "SIGSTOP":
        time.sleep(WAKE_SECONDS)
        os.kill(pid, Signals.SIGCONT)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        if victim.process.poll() is not None:
            ended = victim.wait(60)
            if ended == 0:
                raise SystemExit("the run has finished before the last blow: give it more --epochs")
            victim.again()
        resumed = _resumed(victim, attempt, sent, blow)
        if resumed:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"after {blow} the run has not resumed for {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.02)
    done = Struck(blow, step, ended, resumed["step"] + 1, resumed["time"] - sent)
    return done if hit else None


def _reached(victim: Victim, phase: Phase) -> bool:
    if phase == "save":
        return victim.saving()
    return victim.phase() == {"step": "train"}.get(phase, phase)


def _resumed(victim: Victim, attempt: int, sent: float, blow: Blow) -> dict[str, Any] | None:
    """The report of the first step after a signal."""
    if blow.target == "launcher" and blow.signal == "SIGSTOP":
        # Its ranks do not need it to go on.
        later = [line for line in victim.lines() if line["time"] > sent]
        return later[0] if later else None
    starts = victim.starts()
    return starts[attempt] if len(starts) > attempt else None


def state_hash(run: Path) -> str:
    """SHA-256 of the weights and all other variables at the end of a run."""
    newest = json.loads((run / "checkpoints" / "index.json").read_text())["newest"]
    return hashlib.sha256((run / "checkpoints" / newest / STATE).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """A disturbed run beside an undisturbed one."""

    struck: list[Struck]
    missed: int
    """Signals that came too late for their phase; the run had to survive them as well."""
    whole: str
    disturbed: str
    """SHA-256 of the final states."""
    attempts: int
    seconds: tuple[float, float]
    """Without and with disturbances."""


def chaos(
    folder: Path, seed: int, kills: int, extra: Sequence[str], say: Callable[[str], None]
) -> Outcome:
    """Run it undisturbed, then disturbed.

    Args:
        folder: where; the console of both runs is written to chaos.log in it.
        seed: of the blows.
        kills: how many.
        extra: options of the training.
        say: is told of progress.
    """
    chance = random.Random(f"{seed}/times")
    options = [*OPTIONS, *extra]
    with (folder / "chaos.log").open("wb") as log:
        begin = time.monotonic()
        say("the undisturbed run")
        whole = Victim(folder, "whole", options, log)
        if whole.wait(3600):
            raise SystemExit(f"the undisturbed run failed, see {folder}/chaos.log")
        between = time.monotonic()
        say(f"took {between - begin:.0f} s; now the disturbed one")
        victim = Victim(folder, "disturbed", options, log)
        struck, missed = [], 0
        try:
            for blow in plan(seed, kills):
                done = None
                while done is None:
                    if blow.phase == "start-up" and victim.starts():
                        # To start, it has to end first.
                        os.kill(victim.process.pid, Signals.SIGTERM)
                        victim.wait(60)
                        victim.again()
                    done = strike(victim, blow, chance)
                    missed += done is None
                struck.append(done)
                say(
                    f"{len(struck):>3} {blow.signal} to {blow.target}, {blow.phase}: "
                    + outcome(done)
                )
            status = finish(victim)
        finally:
            victim.kill()
    if status:
        raise SystemExit(f"the disturbed run failed with status {status}, see {folder}/chaos.log")
    end = time.monotonic()
    found = json.loads((victim.run / "result.json").read_text())
    return Outcome(
        struck,
        missed,
        state_hash(whole.run),
        state_hash(victim.run),
        found["attempts"],
        (between - begin, end - between),
    )


def finish(victim: Victim) -> int:
    """Give the command again as long as it ends because it was asked to: a rank that gets SIGTERM
    in its start-up takes one step before it stops, which counts as resumed.

    Returns:
        The exit status of the last.
    """
    while (status := victim.wait(3600)) in STOP_STATUSES:
        victim.again()
    return status


def outcome(struck: Struck) -> str:
    """In words."""
    how = "went on" if struck.ended is None else f"ended with {struck.ended}, was started again"
    return f"{how}; step {struck.resumed_at:,} after {struck.seconds:.1f} s"


def table(struck: Sequence[Struck]) -> str:
    """What was done when, and how long it took."""
    rows = [["", "signal", "to", "in", "after step", "the command", "took step", "after, s"]]
    for number, one in enumerate(struck, 1):
        ended = "went on" if one.ended is None else f"ended with {one.ended}"
        blow = one.blow
        rows.append(
            [
                *(str(number), blow.signal, blow.target, blow.phase, f"{one.step:,}", ended),
                *(f"{one.resumed_at:,}", f"{one.seconds:.1f}"),
            ]
        )
    return columns(rows)


def show(data: Mapping[str, Any]) -> str:
    """The table and the end, from what was written to a file."""
    struck = [Struck(**{**one, "blow": Blow(**one["blow"])}) for one in data["struck"]]
    same = data["whole"] == data["disturbed"]
    before, after = data["seconds"]
    options = data["options"]
    return (
        f"{table(struck)}\n\nSeed {options['seed']}, {len(struck)} signals (and {data['missed']}"
        f" that came too late for their phase), {data['attempts']} attempts that took a step;"
        f" {before:.0f} s undisturbed, {after:.0f} s disturbed. The final states are"
        f" {'the same, byte for byte' if same else 'NOT the same'}: SHA-256"
        f" {data['whole'][:16]}… and {data['disturbed'][:16]}…"
    )


def main() -> int:
    """Print the table; returns 1 if the final states differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0, help="of what is done when (0)")
    parser.add_argument("--kills", type=int, default=20, help="signals (20)")
    parser.add_argument("--epochs", type=int, default=40, help="of the training (40)")
    parser.add_argument("--json", help="file for the raw figures")
    args = parser.parse_args()
    started_on = environment()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        extra = ["--epochs", str(args.epochs)]

        def say(text: str) -> None:
            print(text, flush=True)

        found = chaos(Path(folder), args.seed, args.kills, extra, say)
    write_json(args.json, "chaos", started_on, options=vars(args), **asdict(found))
    data = {**asdict(found), "options": vars(args)}
    print("\n" + show(data))
    return int(found.whole != found.disturbed)


if __name__ == "__main__":
    sys.exit(main())
