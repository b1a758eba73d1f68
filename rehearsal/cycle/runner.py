"""Runs the steps in order, prints progress, and writes the record."""

import contextlib
import os
import platform
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final, TextIO

from common.errors import INTERRUPTED
from common.files import write_atomically
from common.text import duration
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.cycle import environment_file
from rehearsal.cycle.commands import CommandError
from rehearsal.cycle.context import TRAINER, CycleContext
from rehearsal.cycle.observations import NodeSampler
from rehearsal.cycle.steps import STEPS, CycleStep
from rehearsal.cycle.webhook import Webhook
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import StopError, owner, stop_signals
from rehearsal.machine_learning.container import open_image
from rehearsal.options import Options
from rehearsal.page.cycle_page import write_page
from rehearsal.page.record import Cycle, Link, StepResult, to_json
from rehearsal.page.request_kinds import count_kinds
from rehearsal.pulumi.deployment import ROOT, Deployment
from rehearsal.simulator import Simulator

STACK: Final = "dev"
FOLDER: Final = ROOT / "build" / "rehearsal"
RECORD: Final = "rehearsal.json"
PAGE: Final = "rehearsal.html"
_FIRST: Final = "azure"
"""Folder that every rehearsal creates first."""
_OURS: Final = frozenset(
    {_FIRST, "pulumi", "logs", "digits", "downloaded", environment_file.FILE, RECORD, PAGE}
)
"""Names of all files and folders that a rehearsal writes."""
_LAST: Final = "teardown"
"""First step that removes the platform; `keep` stops before it."""
_VERSIONS: Final = ("azure-ai-ml", "pulumi-azure-native", "azure-storage-blob")
"""Packages whose versions the record lists."""


@dataclass(frozen=True)
class CycleOptions:
    """Options of a rehearsal."""

    folder: Path = FOLDER
    """Folder for all output; the output of an earlier rehearsal in it is deleted."""
    until: str | None = None
    """Name of the last step; None runs all steps."""
    keep: bool = False
    """Stop before the teardown, and keep everything running until a signal arrives."""
    image: str | None = None
    """Image of this machine to run jobs in; None uses the trainer's environment."""


@dataclass
class Console:
    """Console output."""

    stream: TextIO = field(default_factory=lambda: sys.stdout)

    def line(self, text: str = "") -> None:
        """Print a line."""
        print(text, file=self.stream, flush=True)

    def output_of_command(self, text: str) -> None:
        """Print a line of a command's output."""
        self.line(f"       | {text}")


def run(options: CycleOptions, steps: Sequence[CycleStep] = STEPS) -> int:
    """Run a rehearsal; return 0 if every step passed, 1 if one failed, 130 if interrupted.

    Raises:
        RehearsalError: it cannot start.
    """
    selected = select_steps(options, steps)
    _require_trainer()
    if options.image is not None:
        # Checked before an earlier rehearsal's record is deleted.
        open_image(options.image)
    folder = options.folder.absolute()
    empty_folder(folder)
    console = Console()
    with stop_signals(), contextlib.suppress(StopError):
        return _rehearse(options, selected, folder, console)
    console.line("\ninterrupted; all started processes were stopped")
    return INTERRUPTED


def _rehearse(
    options: CycleOptions, steps: Sequence[CycleStep], folder: Path, console: Console
) -> int:
    azure_options = Options(
        program_folder=TRAINER.parent,
        image=options.image,
        max_processes_per_node=1,
        allocation_seconds=1.0,
        max_idle_seconds=5.0,
        operation_seconds=0.3,
        card_seconds=5.0,
        sync_seconds=0.3,
        roles=True,
    )
    with (
        Simulator(folder / _FIRST, azure_options) as azure,
        Deployment(azure, folder / "pulumi", STACK) as stack,
        Webhook() as webhook,
    ):
        _join_groups(azure, stack)
        console.line(f"Stack {STACK} in the simulator of Azure at {azure.url}")
        console.line(f"Pulumi {stack.version}: {_short(stack.program)}")
        if options.image is not None:
            console.line(f"Jobs run in {options.image}")
        console.line(f"Output folder: {_short(folder)}")
        context = CycleContext(azure, stack, folder, console.output_of_command, webhook)
        cycle = run_steps(steps, context, console)
        write_record(cycle, folder)
        _show_result(cycle, folder, console)
        if options.keep and cycle.failed is None:
            _keep(stack, folder, console)
    return 0 if cycle.failed is None else 1


def _join_groups(azure: Simulator, stack: Deployment) -> None:
    """Configure Entra groups, and make this rehearsal's client a member of each."""
    for setting in ("people.publishers", "people.scientists"):
        group = new_id()
        stack.configure(setting, group)
        azure.identity.join(azure.environment["AZURE_CLIENT_ID"], group)


def run_steps(steps: Sequence[CycleStep], context: CycleContext, console: Console) -> Cycle:
    """Run steps until one fails; return the record, in which the others are skipped."""
    began, results = time.time(), list[StepResult]()
    sampler = NodeSampler(context.azure)
    try:
        for number, step in enumerate(steps, 1):
            if results and results[-1].outcome != "ok":
                results.append(
                    StepResult(step.name, step.title, step.command, time.time(), 0, "skipped")
                )
                continue
            console.line(f"\n{f'{number}/{len(steps)}':>5}  {step.title}: {step.command}")
            results.append(_run_step(step, context))
            _show_step(results[-1], console)
    finally:
        sampler.close()
    return Cycle(
        title=f"Stack {STACK} in the simulator",
        began=began,
        seconds=time.time() - began,
        machine=_machine(context.azure.options),
        engine_version=context.stack.version,
        versions=tuple((name, metadata.version(name)) for name in _VERSIONS),
        steps=tuple(results),
        attempts=context.facts.attempts,
        pools=sampler.pools(),
        kinds=count_kinds(context.azure.requests),
        links=tuple(_links(context.folder)),
    )


def _machine(options: Options) -> str:
    jobs = "" if options.image is None else f", jobs in {options.image}"
    return f"{platform.system()}, {os.cpu_count()} cores{jobs}"


def _run_step(step: CycleStep, context: CycleContext) -> StepResult:
    began = time.time()
    place: str | None = None
    try:
        lines, ok = tuple(step.run(context)), True
    except CommandError as error:
        lines, ok, place = error.lines, False, str(error.log)
    except Exception as error:  # noqa: BLE001
        # The record must be written whatever exception a step raises.
        lines, ok, place = (
            (f"{type(error).__name__}: {error}",),
            False,
            str(context.folder / "logs"),
        )
    return StepResult(
        name=step.name,
        title=step.title,
        command=step.command,
        began=began,
        seconds=time.time() - began,
        outcome="ok" if ok else "failed",
        lines=tuple(_from_root(line) for line in lines),
        place=place and _from_root(place),
    )


def _from_root(text: str) -> str:
    """Shorten absolute paths in the repository to paths relative to its root."""
    # Only whole paths: neither longer ones that contain the root, nor URLs.
    return re.sub(rf"(?<![\w./-]){re.escape(str(ROOT))}/(?=[\w.-])", "", text)


def _show_step(step: StepResult, console: Console) -> None:
    first, *others = step.lines or ("",)
    outcome = "ok" if step.outcome == "ok" else "FAILED"
    console.line(f"       {outcome:<6} {step.seconds:6.1f} s   {first}")
    for line in others:
        console.line(f"{'':25}{line}")


def _show_result(cycle: Cycle, folder: Path, console: Console) -> None:
    console.line()
    failed = cycle.failed
    if failed is None:
        console.line(f"all {len(cycle.steps)} steps passed in {duration(cycle.seconds)}")
    else:
        place = _short(Path(failed.place or folder))
        console.line(f"{failed.title}: failed; see {place} for its output")
    console.line(f"Report: {_short(folder / PAGE)}")


def _keep(stack: Deployment, folder: Path, console: Console) -> None:
    environment_file.write(folder, stack)
    console.line("The stack keeps running. In another terminal, run\n")
    console.line('  eval "$(make -s -C tools rehearse-env)"\n')
    console.line(
        "to let pulumi and jobs commands use it."
        f" Press Ctrl-C here to stop it (process {os.getpid()})."
    )
    try:
        while True:
            signal.pause()
    except StopError:
        console.line("\nstopped")
    finally:
        (folder / environment_file.FILE).unlink(missing_ok=True)


def write_record(cycle: Cycle, folder: Path) -> None:
    """Write the record of a cycle and its page."""
    write_atomically(folder / RECORD, to_json(cycle))
    write_page(cycle, folder / PAGE)


def _links(folder: Path) -> Iterator[Link]:
    if (folder / "downloaded" / "report.html").is_file():
        yield Link("Report of the run", "downloaded/report.html")
    yield Link("Output of the commands", "logs/")


def select_steps(options: CycleOptions, steps: Sequence[CycleStep]) -> Sequence[CycleStep]:
    """Return the steps that the options select.

    Raises:
        RehearsalError: the options name an unknown step.
    """
    names = [step.name for step in steps]
    if options.until is not None and options.until not in names:
        raise RehearsalError(
            f"--until: unknown step {options.until!r}; choose one of {', '.join(names)}"
        )
    last = len(steps) if options.until is None else names.index(options.until) + 1
    if options.keep and _LAST in names[:last]:
        last = names.index(_LAST)
    return steps[:last]


def _require_trainer() -> None:
    if not TRAINER.exists():
        raise RehearsalError(f"{_short(TRAINER)} does not exist; run `make setup`")


def empty_folder(folder: Path) -> None:
    """Create a folder, or delete an earlier rehearsal's output from it, and nothing else.

    Raises:
        RehearsalError: a rehearsal is running there, or the folder contains other files.
    """
    process = owner(folder / _FIRST)
    if process is not None:
        raise RehearsalError(
            f"{_short(folder)}: in use by the rehearsal of process {process}; stop it with Ctrl-C"
            " in its terminal, or choose another --folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in folder.iterdir()}
    # Without the folder that every rehearsal creates first, the files are not a rehearsal's.
    strange = sorted(names - _OURS if _FIRST in names else names)
    if strange:
        raise RehearsalError(
            f"{_short(folder)}: contains {', '.join(strange)}, which no rehearsal wrote; choose"
            " another --folder"
        )
    for path in sorted(folder.iterdir(), key=lambda path: path.name == _FIRST):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else shlex.quote(str(path))
