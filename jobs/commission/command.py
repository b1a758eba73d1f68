"""`python -m jobs commission`: run what has never met Azure, and write a page of what was found."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Final

from azure.core.exceptions import ResourceNotFoundError

from common import fields
from common.annotations import Bounds
from common.errors import INTERRUPTED, ConfigError, UserError
from common.files import write_atomically
from common.page.render import render
from common.prices import Cost
from common.waiting import wait_until
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure import costs, results
from jobs.azure.workspace import Workspace, connect
from jobs.commission.page import page_of, rows_of
from jobs.commission.record import Fact, Record
from jobs.commission.steps import (
    CANCEL,
    PREEMPTION,
    RUNS,
    Output,
    Step,
    Wishes,
    preempted,
    steps,
)
from jobs.console import PLATFORM, Console, agree, next_command, table
from jobs.errors import ConflictError, FateUnknownError, MissingError, RequestError
from jobs.planning import prices
from jobs.planning.command import workspace_prices
from jobs.scaling.sweep import key_pattern, name_problems
from jobs.spec.builder import find_cluster
from jobs.spec.run_key import run_of

FOLDER: Final = "commission"
_NOTES: Final = 40
"""Last lines of a command's notes that are kept."""


@dataclass(frozen=True)
class CommissionOptions:
    """Run what has never met Azure, ascending by cost, and write a page of facts: what was
    expected, what was found, and whether the guesses of the documents were right. The same command
    goes on: it repeats only steps that were not as expected. Options of the trainer may follow
    after `--`.
    """

    name: str = "first"
    """Name of the commissioning, with which the keys of its runs begin."""

    preset: str = "imagenet-ndv2"
    """Preset of the trainer for scaling and trainings."""

    data: str | None = None
    """NAME:VERSION of a registered data set. Without one, no step trains on data."""

    cluster: str | None = None
    """Cluster by its name in the stack's settings; None is the usual one. It needs two nodes."""

    steps: Annotated[int, Bounds(at_least=100)] = 2000
    """Steps of a training; one is cancelled in the middle."""

    timeout_hours: Annotated[float, Bounds(above=0)] = 0.5
    """Hours after which a job is cancelled that has not ended; they bound what a step costs."""

    attempts: Annotated[int, Bounds(at_least=2, at_most=99)] = 3
    """Maximum number of attempts of a run."""

    cap: Annotated[float | None, Bounds(above=0)] = None
    """Refuse to begin if the steps together may cost more, in the currency of the prices."""

    training: tuple[str, ...] = ()
    """Further options of the trainer for the trainings on the data set alone, each as NAME=VALUE:
    model.image-size=64."""

    submit: tuple[str, ...] = ()
    """Further options of every `submit`, each as NAME=VALUE: poll-seconds=1."""

    scaling: tuple[str, ...] = ()
    """Further options of `scaling`, each as NAME=VALUE: seconds=30."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 60.0
    """Longest time until the job that is to be cancelled in the middle trains; one that does not is
    cancelled all the same."""

    yes: bool = False
    """Do not ask."""

    teardown: bool = False
    """Delete what the commissioning has made in storage: the folders of its runs, and the outputs
    of its jobs. The page and the measured points stay."""

    folder: str = FOLDER
    """Folder of all commissionings."""

    def __post_init__(self) -> None:
        problems = fields.problems(self) or name_problems(self.name)
        further = (*self.training, *self.submit, *self.scaling)
        if not problems and not all("=" in text for text in further):
            problems.append(
                "--training, --submit, --scaling: each must be NAME=VALUE, such as poll-seconds=1"
            )
        if problems:
            raise ConfigError(problems)

    def wishes(self, program: tuple[str, ...], tries: Mapping[str, int]) -> Wishes:
        """Return what is commissioned, after some tries of its steps."""
        return Wishes(
            *(self.name, self.preset, self.cluster, self.data, self.steps, program),
            training=_flags(self.training),
            more=_flags(self.submit),
            scaling=_flags(self.scaling),
            tries=tries,
        )


def run(
    options: CommissionOptions,
    outputs: PlatformOutputs,
    *,
    as_json: bool,
    program: tuple[str, ...],
) -> int:
    """Run the steps that are due, and print and write the facts.

    Returns:
        Exit status: 0 if every step was as expected, 1 if one was not, 130 after Ctrl-C.
    """
    console = Console(as_json=as_json)
    folder = Path(options.folder).absolute() / outputs.stack / options.name
    record = Record.read(folder / "facts.json")
    wishes = options.wishes(program, record.tries())
    all_steps = steps(wishes, options.timeout_hours, options.attempts)
    if options.teardown:
        return _tear_down(console, connect(outputs), options.name)
    due = [step for step in all_steps if _is_due(record, step)]
    if due:
        _agree(console, outputs, options, due)
    try:
        Commissioning(options, outputs, console, record).go(due)
    except KeyboardInterrupt:
        console.note("interrupted; a job that was submitted continues in Azure. The same command"
                     f" goes on, and `{next_command('cancel', options.name + '-...')}` cancels"
                     " a run")  # fmt: skip
        return INTERRUPTED
    finally:
        page = page_of(outputs.stack, outputs.workspace, all_steps, record.facts)
        folder.mkdir(parents=True, exist_ok=True)
        html = render("jobs.commission", "facts.html", page=page)
        write_atomically(folder / "facts.html", html)
    rows = rows_of(all_steps, record.facts)
    lines = [(row.name, row.state, row.verdict or "-", row.found) for row in rows]
    text = table(("step", "state", "guess", "found"), lines)
    document = [{"step": r.name, "state": r.state, "guess": r.verdict, "found": r.found}
                for r in rows]  # fmt: skip
    console.answer(
        {"facts": document, "page": str(folder / "facts.html")},
        f"{text}\npage: {folder / 'facts.html'}",
    )
    return 1 if any(_is_due(record, step) for step in all_steps) else 0


class Commissioning:
    """Runs steps, and notes what they find.

    Args:
        options: Options of the command.
        outputs: Outputs of the stack.
        console: Prints what happens.
        record: What was found so far.
    """

    def __init__(
        self,
        options: CommissionOptions,
        outputs: PlatformOutputs,
        console: Console,
        record: Record,
    ) -> None:
        self._options, self._outputs = options, outputs
        self._console, self._record = console, record

    def go(self, due: Sequence[Step]) -> None:
        """Run steps in their order; one that others need ends the list if it fails."""
        for step in due:
            self._console.say(f"{step.name}: {step.expected}")
            before = self._record.facts.get(step.name)
            # Else a job that has ended without anybody who looked would be repeated.
            resumed = before is not None and (
                before.state == "begun" or before.status == FateUnknownError.exit_code
            )
            self._record.set(step.name, Fact("begun", _now()))
            begun = time.monotonic()
            output = self._output(step, resumed=resumed)
            finding = step.find(output)
            notes = "\n".join(output.text.splitlines()[-_NOTES:])
            self._record.set(
                step.name,
                Fact(
                    "as expected" if finding.good else "different",
                    _now(),
                    finding.text,
                    finding.guess,
                    output.status,
                    round(time.monotonic() - begun, 1),
                    notes,
                ),
            )
            self._console.say(f"{step.name}: {finding.text}")
            seen = preempted({step.name: output.text})
            if seen is not None:
                self._record.set(PREEMPTION, Fact("as expected", _now(), seen.text, seen.guess))
            if step.needed and not finding.good:
                self._console.note(f"{step.name} is not as expected; what costs more is left out")
                return

    def _output(self, step: Step, *, resumed: bool) -> Output:
        if resumed and step.run is not None and step.name != CANCEL:
            followed = self._follow(step.run)
            if followed.status != MissingError.exit_code or followed.answer is not None:
                return followed
        if step.name == CANCEL and step.run is not None:
            problem = self._cancelled_in_the_middle(step, step.run)
            if problem is not None:
                return problem
        output = self._call(*step.command)
        if step.run is not None and _still_runs(output):
            # An earlier try could not follow it to its end.
            return self._follow(step.run)
        return output

    def _follow(self, run: str) -> Output:
        """Follow a run as the `submit` did that an earlier try has begun."""
        attempts = str(self._options.attempts)
        return self._call("follow", run, "--supervise", "--resubmit.attempts", attempts)

    def _cancelled_in_the_middle(self, step: Step, run: str) -> Output | None:
        """Submit a run and cancel it once it trains; return what went wrong, if anything did."""
        verb, *rest = step.command
        submitted = self._call(verb, "--no-follow", *rest)
        if submitted.status and not _still_runs(submitted):
            return submitted
        asked = Output(1, None, "")

        def trains() -> bool:
            nonlocal asked
            asked = self._call("stacks", run, quiet=True)
            ranks = (asked.answer or {}).get("ranks", []) if asked.status == 0 else []
            ended = "has ended" in asked.text
            return ended or any(rank["heartbeat"]["step"] > 0 for rank in ranks)

        minutes = self._options.wait_minutes
        if not wait_until(trains, minutes * 60, 5.0):
            # Nobody would look at it any more.
            ended = self._call("cancel", run)
            left = "it was cancelled" if ended.status == 0 else f"cancel failed: {ended.reason}"
            text = f"{run}: did not train within {minutes:g} minutes; {left}"
            return Output(ended.status or 1, None, text)
        if asked.status:
            return asked
        cancelled = self._call("cancel", run)
        return cancelled if cancelled.status else None

    def _call(self, verb: str, *arguments: str, quiet: bool = False) -> Output:
        """Run `python -m jobs`, and show its progress as it comes."""
        words = [verb, "--json", *_platform(self._outputs.stack), *arguments]
        lines: list[str] = []
        # A file, as a command would wait for somebody to read a pipe that is full.
        with (
            TemporaryFile("w+") as answer,
            subprocess.Popen(
                [sys.executable, "-m", "jobs", *words],
                stdout=answer,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                if not quiet:
                    self._console.say(f"  {line.rstrip()}")
            status = process.wait()
            answer.seek(0)
            document = _document(answer.read())
        return Output(status, document, "\n".join(lines))


def _platform(stack: str) -> tuple[str, ...]:
    """Return the arguments that select the platform, even if this command was given none: without
    them `plan` plans for no stack.
    """
    file = os.environ.get("JOBS_OUTPUTS")
    return PLATFORM.get() or (("--outputs", file) if file else ("--stack", stack))


def _still_runs(output: Output) -> bool:
    """Whether a `submit` was refused because the last attempt of its run has not ended."""
    return output.status == ConflictError.exit_code and "has not ended" in output.text


def _is_due(record: Record, step: Step) -> bool:
    fact = record.facts.get(step.name)
    return fact is None or fact.state != "as expected"


def _agree(
    console: Console, outputs: PlatformOutputs, options: CommissionOptions, due: Sequence[Step]
) -> None:
    """Say what the steps cost at most, and ask once.

    Raises:
        UserError: It is more than the cap, or unknown although there is one, or nobody agrees.
    """
    cluster = find_cluster(outputs, options.cluster, "train")
    known = prices.known(outputs.region, workspace_prices(outputs, console))
    price = known.find(cluster.size, cluster.priority)
    cost = Cost(sum(step.hours for step in due) * 3600, price)
    shown = "?" if cost.amount is None or price is None else f"{cost.amount:,.2f} {price.currency}"
    console.say(table(("step", "node hours at most", "expected"),
                      [(step.name, f"{step.hours:g}", step.expected) for step in due]))  # fmt: skip
    at_most = f"costs at most {shown}; {costs.LEFT_OUT}"
    if options.cap is not None and (cost.amount is None or cost.amount > options.cap):
        raise UserError(
            f"{at_most}: more than --cap {options.cap:g}, or unknown; lower --timeout-hours or"
            " --attempts, or raise the cap. Nothing was submitted"
        )
    if options.yes:
        console.say(at_most)
    else:
        agree(at_most, console)


def _tear_down(console: Console, workspace: Workspace, name: str) -> int:
    """Delete the folders of the runs, and the outputs of their jobs.

    Returns:
        Exit status: 0 if nothing is left, 1 otherwise.
    """
    storage = workspace.storage
    store = storage.datastores.results
    artifacts = results.artifact_store(workspace.manager, storage)
    own = re.compile(rf"{name}-({'|'.join(RUNS)})(-[0-9]+)?|{key_pattern(name)}")
    jobs = [job for job in workspace.jobs.newest_first(archived=True) if own.fullmatch(job.run)]
    running = [job.name for job in jobs if not job.ended]
    if running:
        raise UserError(f"{', '.join(running)}: not ended; cancel them first, or wait")
    left = []
    folders = {(store, results.run_folder(run_of(job.name))) for job in jobs}
    folders |= {(artifacts, results.artifact_folder(job.name)) for job in jobs}
    for datastore, folder in sorted(folders, key=lambda each: each[1]):
        try:
            count = _delete(workspace, datastore, folder)
            console.say(f"{datastore.container}/{folder}: {count} files deleted")
        except RequestError as error:
            left.append(f"{datastore.container}/{folder}: {str(error).splitlines()[0]}")
    text = "\n".join(["left:", *left]) if left else "nothing of it is left in storage"
    console.answer({"left": left}, text)
    return 1 if left else 0


def _delete(workspace: Workspace, datastore: Datastore, folder: str) -> int:
    with workspace.storage.errors(datastore, writing=True):
        client = workspace.storage.container(datastore)
        count = 0
        for blob in list(client.list_blob_names(name_starts_with=f"{folder}/")):
            try:
                client.delete_blob(blob)
                count += 1
            except ResourceNotFoundError:
                continue
        return count


def _flags(texts: Sequence[str]) -> tuple[str, ...]:
    pairs = (text.partition("=") for text in texts)
    return tuple(word for name, _, value in pairs for word in (f"--{name}", value))


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
