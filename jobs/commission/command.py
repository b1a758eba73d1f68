"""`python -m jobs commission`: run what was never tried on Azure, and write a page of the facts."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from azure.core.exceptions import ResourceNotFoundError

from common.errors import INTERRUPTED, UserError
from common.files import write_atomically
from common.page.render import render
from common.prices import Cost, Price, total
from common.waiting import wait_until
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure import costs, node_prices, results
from jobs.azure.costs import JobCosts
from jobs.azure.job_records import Job, exit_code
from jobs.azure.workspace import Workspace, connect
from jobs.cli import COMMANDS
from jobs.commission.facts import Fact, Record, State, page_of, rows_of
from jobs.commission.options import CommissionOptions
from jobs.commission.steps import (
    CANCEL,
    NOTICES,
    PREEMPTION,
    Output,
    Step,
    preempted,
    steps,
)
from jobs.console import PLATFORM, Console, agree, next_command, table
from jobs.errors import FateUnknownError, RequestError
from jobs.following.cluster_check_result import ClusterCheckResult, assess
from jobs.following.supervisor import attempt_result
from jobs.spec.builder import find_cluster
from jobs.spec.kinds import CHECK_RESULT
from jobs.spec.run_key import run_of

_NOTES: Final = 40
"""Last lines of a command's notes that are kept."""


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
    console, workspace = Console(as_json=as_json), connect(outputs)
    if options.teardown:
        return _tear_down(console, workspace, options)
    folder = Path(options.folder).absolute() / outputs.stack / options.name
    record = Record.read(folder / "facts.json")
    # Without the leaf that brings its command, a step is left out.
    known = steps(options, program, record.tries())
    all_steps = [step for step in known if step.command[0] in COMMANDS]
    due = [step for step in all_steps if record.is_due(step)]
    spent = _spent(workspace, outputs, options)
    if due:
        _agree(console, outputs, options, due, spent)
    page = folder / "facts.html"
    try:
        Commissioning(options, outputs, workspace, console, record).run(due)
    except KeyboardInterrupt:
        again = next_command("cancel", f"{options.name}-...")
        console.note(
            "interrupted; a job that was submitted continues in Azure. The same command continues,"
            f" and `{again}` cancels a run"
        )
        return INTERRUPTED
    finally:
        rows = rows_of(all_steps, record.facts)
        folder.mkdir(parents=True, exist_ok=True)
        # What was spent may have grown, and must not keep the page from being written.
        with suppress(UserError):
            spent = _spent(workspace, outputs, options)
        facts = page_of(outputs.stack, outputs.workspace, rows, str(total([spent])))
        write_atomically(page, render("jobs.commission", "facts.html", page=facts))
    lines = [(row.step.name, row.state, row.verdict or "-", row.found) for row in rows]
    keys = ("step", "state", "guess", "found")
    document = [
        dict(zip(keys, (row.step.name, row.state, row.verdict, row.found), strict=True))
        for row in rows
    ]
    text = f"{table(keys, lines)}\nspent so far: {total([spent])}\npage: {page}"
    answer = {"facts": document, "spent": costs.document(total([spent])), "page": str(page)}
    console.answer(answer, text)
    return 1 if any(map(record.is_due, all_steps)) else 0


class Commissioning:
    """Runs steps, and notes what they find.

    Args:
        options: Options of the command.
        outputs: Outputs of the stack.
        workspace: Its workspace.
        console: Prints what happens.
        record: What was found so far.
    """

    def __init__(
        self,
        options: CommissionOptions,
        outputs: PlatformOutputs,
        workspace: Workspace,
        console: Console,
        record: Record,
    ) -> None:
        self._options, self._outputs, self._workspace = options, outputs, workspace
        self._console, self._record = console, record

    def run(self, due: Sequence[Step]) -> None:
        """Run steps in their order; one that others need ends the list if it fails."""
        for step in due:
            self._console.say(f"{step.name}: {step.expected}")
            before = self._record.facts.get(step.name)
            # Else a job whose end no command has seen would be repeated.
            unseen = before is not None and (
                before.state == "begun" or before.status == FateUnknownError.exit_code
            )
            self._record.set(step.name, Fact("begun", _now()))
            begun = time.monotonic()
            output = self._with_files(step, self._output(step, unseen=unseen))
            finding = step.find(output)
            state: State = "as expected" if finding.good else "different"
            seconds, notes = round(time.monotonic() - begun, 1), output.text.splitlines()[-_NOTES:]
            found = finding.text, finding.guess, output.status, seconds, "\n".join(notes)
            self._record.set(step.name, Fact(state, _now(), *found))
            self._console.say(f"{step.name}: {finding.text}")
            seen = preempted(step.name, output.attempts)
            if seen is not None:
                self._record.set(PREEMPTION, Fact("as expected", _now(), seen.text, seen.guess))
            if step.needed and not finding.good:
                self._console.note(f"{step.name} is not as expected; what costs more is left out")
                return

    def _output(self, step: Step, *, unseen: bool) -> Output:
        """Run the command of a step; a run that an earlier try has left is followed instead."""
        attempts = self._workspace.jobs.attempts(step.run) if step.run else ()
        running = bool(attempts) and not attempts[-1].ended
        if step.run and attempts and (running or unseen) and step.name != CANCEL:
            return self._follow(step.run)
        if step.run and step.name == CANCEL and unseen and attempts:
            # The earlier try may have got to any place.
            continued = len(attempts) > 1 and any(job.canceled_by_us for job in attempts[:-1])
            if attempts[-1].status == "Completed" or (running and continued):
                return self._follow(step.run)
            if attempts[-1].canceled_by_us:
                return self._call(*step.command)
        if step.run and step.name == CANCEL:
            problem = self._cancelled_in_the_middle(step.command, step.run, running=running)
            if problem is not None:
                return problem
        return self._call(*step.command)

    def _follow(self, run: str) -> Output:
        """Follow a run as the `submit` did that an earlier try has begun."""
        attempts = str(self._options.attempts)
        return self._call("follow", run, "--supervise", "--resubmit.attempts", attempts)

    def _cancelled_in_the_middle(
        self, command: tuple[str, ...], run: str, *, running: bool
    ) -> Output | None:
        """Submit a run and cancel it once it trains; return what went wrong, if anything did."""
        verb, *rest = command
        submitted = Output(0) if running else self._call(verb, "--no-follow", *rest)
        if submitted.status:
            return submitted

        def trains_or_ended() -> bool:
            job = self._workspace.jobs.attempts(run)[-1]
            # An earlier attempt may have left events.
            since = job.created.timestamp() if job.created else 0.0
            events = results.read_events(self._workspace.storage, run)
            trains = any(one["event"] == "train" and one["time"] > since for one in events)
            return trains or job.ended

        minutes = self._options.wait_minutes
        if not wait_until(trains_or_ended, minutes * 60, 5.0):
            # No command would look at it any more.
            ended = self._call("cancel", run)
            left = "it was cancelled" if ended.status == 0 else f"cancel failed: {ended.reason}"
            text = f"{run}: did not train within {minutes:g} minutes; {left}"
            return Output(ended.status or 1, text=text)
        cancelled = self._call("cancel", run)
        return cancelled if cancelled.status else None

    def _with_files(self, step: Step, output: Output) -> Output:
        """Return an output with what the run of a step has left in files and in the workspace."""
        if step.run is None:
            return output
        jobs, check = self._workspace.jobs, None
        try:
            ended = [(job, jobs.details(job.name)) for job in jobs.attempts(step.run) if job.ended]
            events = results.read_events(self._workspace.storage, step.run)
            if ended and ended[-1][0].kind == "check" and ended[-1][0].status == "Completed":
                check = self._check(ended[-1][0])
        except UserError as error:
            self._console.note(f"{step.run}: {error}")
            return output
        statuses = (exit_code(details.messages) for _, details in ended)
        return replace(
            output,
            attempts=tuple(attempt_result(job, details, trained=None) for job, details in ended),
            statuses=tuple(status for status in statuses if status is not None),
            starts=tuple(event["step"] for event in events if event["event"] == "start"),
            check=check,
            notices=self._notices(step.run),
        )

    def _notices(self, run: str) -> bool | None:
        """Return whether rank 0 of a run has reached the service that announces events of its VM;
        None if the run has noted nothing.
        """
        storage = self._workspace.storage
        store, path = storage.datastores.results, f"{results.run_folder(run)}/{NOTICES}"
        try:
            return bool(json.loads(storage.read(store, path) or "")["reached"])
        except (KeyError, TypeError, ValueError):
            return None

    def _check(self, job: Job) -> ClusterCheckResult:
        """Return the result of a cluster check, as the job has written it."""
        manager, storage = self._workspace.manager, self._workspace.storage
        measured = results.read_artifact(manager, storage, job.name, CHECK_RESULT)
        return assess(measured, find_cluster(self._outputs, self._options.cluster, "train"))

    def _call(self, verb: str, *arguments: str) -> Output:
        """Run `python -m jobs`, and show its progress as it comes."""
        words = [verb, "--json", *_platform(self._outputs.stack), *arguments]
        lines: list[str] = []
        # A file, as a command would wait for a reader of a pipe that is full.
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
                self._console.say(f"  {line.rstrip()}")
            status = process.wait()
            answer.seek(0)
            try:
                document = json.loads(answer.read())
            except ValueError:
                document = None
        return Output(status, document, "\n".join(lines))


def _platform(stack: str) -> tuple[str, ...]:
    """Return the arguments that select the platform, even if this command was given none: without
    them `plan` plans for no stack.
    """
    file = os.environ.get("JOBS_OUTPUTS")
    return PLATFORM.get() or (("--outputs", file) if file else ("--stack", stack))


def _price(outputs: PlatformOutputs, options: CommissionOptions, console: Console) -> Price | None:
    """Return the highest price of a node of the cluster."""
    cluster = find_cluster(outputs, options.cluster, "train")
    workspace = node_prices.of_workspace(outputs, console)
    return node_prices.known(outputs.region, workspace).highest(cluster.size, cluster.priority)


def _spent(workspace: Workspace, outputs: PlatformOutputs, options: CommissionOptions) -> Cost:
    """Return what the jobs of the commissioning have cost, in all calls so far: their time, the
    starts of their nodes and the time until these were released, at the highest price.
    """
    own = re.compile(options.own_runs)
    jobs = [job for job in workspace.jobs.newest_first(archived=True) if own.fullmatch(job.run)]
    if not jobs:
        return Cost(0.0, None)
    found = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(jobs).values()
    price = _price(outputs, options, Console(as_json=True))
    if any(cost.node_seconds is None for cost in found):
        return Cost(None, price)
    nodes = sum(max(cost.starts, cost.evicted) for cost in found)
    beside = nodes * (options.start_minutes + options.idle_minutes) * 60
    return Cost(sum(cost.node_seconds or 0.0 for cost in found) + beside, price)


def _agree(
    console: Console,
    outputs: PlatformOutputs,
    options: CommissionOptions,
    due: Sequence[Step],
    spent: Cost,
) -> None:
    """Say what the steps cost at most and what was spent, and ask once.

    Raises:
        UserError: Both together are more than the cap, or unknown although there is one, or the
            user does not agree.
    """
    price = _price(outputs, options, console)
    hours = [step.node_hours(options) for step in due]
    cost = Cost(sum(hours) * 3600, price)
    shown = "?" if cost.amount is None or price is None else f"{cost.amount:,.2f} {price.currency}"
    rows = [(step.name, f"{most:.3g}", step.expected)
            for step, most in zip(due, hours, strict=True)]  # fmt: skip
    console.say(table(("step", "node hours at most", "expected"), rows))
    at_most = (
        f"costs at most {shown}, with starts and idle minutes of nodes, after {total([spent])} that"
        " were spent so far; without storage, network and registry, before tax and discounts"
    )
    before = spent.amount if spent.node_seconds else 0.0
    whole = None if cost.amount is None or before is None else cost.amount + before
    if options.cap is not None and (whole is None or whole > options.cap):
        raise UserError(
            f"{at_most}: more than --cap {options.cap:g}, or unknown; lower --timeout-hours or"
            " --attempts, or raise the cap. Nothing was submitted"
        )
    if options.yes:
        console.say(at_most)
    else:
        agree(at_most, console)


def _tear_down(console: Console, workspace: Workspace, options: CommissionOptions) -> int:
    """Delete the folders of the runs, and the outputs of their jobs.

    Returns:
        Exit status: 0 if nothing is left, 1 otherwise.
    """
    storage = workspace.storage
    store = storage.datastores.results
    artifacts = results.artifact_store(workspace.manager, storage)
    own = re.compile(options.own_runs)
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


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
