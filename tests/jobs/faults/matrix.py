"""Meet every kind of request of the commands with every fault, and judge what comes of it."""

import io
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from unittest.mock import patch

from jobs.errors import RequestError
from tests.jobs.faults.network import HTML, Fault, Network
from tests.jobs.faults.scenarios import Scenarios
from tests.jobs.faults.simulated import opened
from tests.jobs.faults.trial import Trial

FAULTS: Final = (
    *(Fault(str(status), status=status) for status in (400, 401, 403, 404, 409, 412)),
    Fault("429", status=429, retry_after=20, lasts=180),
    Fault("500", status=500, lasts=120),
    Fault("503", status=503, lasts=120),
    Fault("HTML", body=HTML, lasts=20),
    Fault("cut body", truncated=True),
    Fault("shape", body=b"[]", lasts=20),
    Fault("cut", cut=True, lasts=120),
    Fault("cut after", cut=True, carried_out=True),
    Fault("late", late=30),
)
"""Faults of requests, by their columns in the table."""
CLOCK: Final = "clock"
"""Kind of the cell of a wall clock that is an hour off, which concerns all requests."""

UNAFFECTED, WAITS, ENDS, WRONG, NONE = "·", "w", "e", "!", "-"
"""Outcomes: nothing is noticed; the command waits and says so; it ends with a clear error, and the
same command continues; something is wrong; the fault does not exist for such requests."""
_ERRORS: Final = {1, 3, 22, 25}
"""Exit statuses of an error that is printed."""
_REFUSED: Final = RequestError.exit_code
_SILENT: Final = 45.0
"""Seconds that a command may wait without a word."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int | None
    """Exit status, or None after a traceback."""
    out: str
    err: str
    seconds: float
    """Time by its clock."""


@dataclass(frozen=True)
class Cell:
    """What came of a fault."""

    command: str
    kind: str
    fault: str
    outcome: str
    why: str = ""
    """The fault; empty if there is none."""
    said: str = ""
    """The command's stderr."""


class Matrix:
    """All cells, on one simulator."""

    def __init__(self, scenarios: Scenarios) -> None:
        self._scenarios, self._azure = scenarios, scenarios.azure
        self.commands = tuple(scenarios.all)
        """Names of the commands."""

    def cells(self, command: str, every: int = 1) -> Iterator[Cell]:
        """Yield the cells of a command. Its kinds of request are recorded from a run without
        faults; of each kind, the first and the last request meet the fault, and the worse outcome
        counts.

        Args:
            command: Name of the command.
            every: Take each n-th fault only, from another one on in each row, so that every kind of
                request and every fault is among the cells.
        """
        self._try(command)
        # The second run says nothing that is said only once in a process.
        network, before, trial = self._try(command)
        wrong = trial.problem() or trial.damage()
        if before.status != 0 or wrong:
            raise AssertionError(f"{command} ends with {before.status}: {wrong}\n{before.err}")
        for row, (kind, count) in enumerate(Counter(network.kinds).items()):
            for fault in FAULTS[row % every :: every]:
                found = []
                for number in sorted({1, count}):
                    network, ran, trial = self._try(command, fault, kind, number)
                    cell = Cell(command, kind, fault.name, NONE)
                    found.append(self._judged(cell, ran, trial, before) if network.met else cell)
                yield max(found, key=_weight)
        found = []
        for ahead in (-3600.0, 3600.0):
            _, ran, trial = self._try(command, ahead=ahead)
            found.append(self._judged(Cell(command, CLOCK, CLOCK, NONE), ran, trial, before))
        yield max(found, key=_weight)

    def run(self, command: str, state: str) -> tuple[Ran, Trial]:
        """Run a command whose job is in another state for a while once it runs."""
        self._azure.reset()
        trial = self._scenarios.all[command]()
        *_, job = self._azure.resources.below(self._scenarios.live.workspace, f"/jobs/{command}")
        self._azure.clock.after(25.0, lambda: self._azure.runs.change(job["id"], status=state))
        return self._run(trial.run), trial

    def _judged(self, cell: Cell, ran: Ran, trial: Trial, before: Ran) -> Cell:
        outcome, why, said = UNAFFECTED, "", ran.err
        clear = "error: " in ran.err or "could not be read" in ran.out
        clear = clear or trial.told(ran.out + ran.err)
        if ran.status is None or "Traceback" in ran.err:
            why = "a traceback"
        elif trial.damage():
            why = str(trial.damage())
        elif "<html" in ran.out:
            why = "shows a page of a proxy as the job's output"
        elif ran.status == 0:
            outcome, why = _completed(ran, trial, before)
        elif ran.status not in _ERRORS or not clear:
            why = f"ends with {ran.status}, which is not true"
        elif trial.again is not None and trial.problem() is None and ran.status == _REFUSED:
            why = "says that nothing was submitted, which is wrong"
        else:
            again, outcome = self._run(trial.again or trial.run), ENDS
            said = f"{said}--- again:\n{again.err}"
            wrong = f"the same command then ends with {again.status}" if again.status else None
            why = trial.damage() or wrong or trial.problem() or ""
        return replace(cell, outcome=WRONG if why else outcome, why=why, said=said)

    def _try(
        self,
        command: str,
        fault: Fault | None = None,
        kind: str = "",
        number: int = 1,
        ahead: float = 0.0,
    ) -> tuple[Network, Ran, Trial]:
        self._azure.reset()
        trial = self._scenarios.all[command]()
        network = Network(self._azure, self._azure.clock, fault, kind, number)
        return network, self._run(trial.run, network, ahead), trial

    def _run(
        self, run: Callable[[], int], network: Network | None = None, ahead: float = 0.0
    ) -> Ran:
        clock = self._azure.clock
        network = network or Network(self._azure, clock)
        out, err, began = io.StringIO(), io.StringIO(), clock.now
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            network.patched(),
            clock.patched(ahead),
        ):
            try:
                status: int | None = run()
            except Exception:  # noqa: BLE001
                status = None
                err.write(traceback.format_exc())
        return Ran(status, out.getvalue(), err.getvalue(), clock.now - began)


def _completed(ran: Ran, trial: Trial, before: Ran) -> tuple[str, str]:
    """Return the outcome of a command that ended with 0, and its fault."""
    problem = trial.problem()
    shown = all(line in ran.out for line in trial.output.decode().splitlines())
    told = ran.err.count("\n") > before.err.count("\n")
    waited = ran.seconds - before.seconds
    why = ""
    if problem:
        why = f"ends with 0: {problem}"
    elif not shown and "could not be read" not in ran.err:
        why = "lines of the log are lost without a word"
    elif not told and waited > _SILENT:
        why = f"waits {waited:.0f} s without a word"
    return WAITS if told else UNAFFECTED, why


def _weight(cell: Cell) -> int:
    return [NONE, UNAFFECTED, WAITS, ENDS, WRONG].index(cell.outcome)


@contextmanager
def world(folder: Path) -> Iterator[Matrix]:
    """Open a simulator for the matrix."""
    with opened(folder) as live:
        variables = {**live.azure.environment, "JOBS_OUTPUTS": str(live.file)}
        scenarios = Scenarios(live, folder)
        with patch.dict(os.environ, variables), scenarios.patched():
            yield Matrix(scenarios)
