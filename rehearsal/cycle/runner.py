"""Takes the steps one after the other, tells what it does, and writes down what came of it."""

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
from types import FrameType
from typing import Final, TextIO

from rehearsal.control_plane.resource_kind import new_id
from rehearsal.cycle import environment_file
from rehearsal.cycle.commands import CommandError
from rehearsal.cycle.context import TRAINER, Scene, Watch
from rehearsal.cycle.record import Cycle, Link, kinds, to_json
from rehearsal.cycle.record import Step as Taken
from rehearsal.cycle.steps import STEPS, Step
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback, owner
from rehearsal.machine_learning import container
from rehearsal.options import Options
from rehearsal.page.cycle_page import write_page
from rehearsal.pulumi.deployment import ROOT, Deployment

STACK: Final = "dev"
FOLDER: Final = ROOT / "build" / "rehearsal"
RECORD: Final = "rehearsal.json"
PAGE: Final = "rehearsal.html"
INTERRUPTED: Final = 130
_FIRST: Final = "azure"
_OURS: Final = frozenset(
    {_FIRST, "pulumi", "logs", "digits", "downloaded", environment_file.FILE, RECORD, PAGE}
)
_LAST: Final = "teardown"
"""Step from which on nothing is left to play with."""
_VERSIONS: Final = ("azure-ai-ml", "pulumi-azure-native", "azure-storage-blob")


class _StopError(BaseException):
    """A signal asked for the end; nothing that expects errors may take it for one."""


@dataclass(frozen=True)
class CycleOptions:
    """What to rehearse."""

    folder: Path = FOLDER
    """For everything that is written; what an earlier rehearsal has left there goes."""
    until: str | None = None
    """Name of the last step; all of them if none."""
    keep: bool = False
    """Stop before the teardown, and leave everything running until a signal comes."""
    image: str | None = None
    """Of this machine, in which jobs run; none for the trainer's environment."""


@dataclass
class Told:
    """What a person sees."""

    stream: TextIO = field(default_factory=lambda: sys.stdout)

    def line(self, text: str = "") -> None:
        print(text, file=self.stream, flush=True)

    def live(self, text: str) -> None:
        self.line(f"       | {text}")


def run(options: CycleOptions, steps: Sequence[Step] = STEPS) -> int:
    """Rehearse; the exit status: 0 if every step was as it must be, 130 if it was interrupted.

    Raises:
        RehearsalError: it cannot begin.
    """
    taken = chosen(options, steps)
    _require_trainer()
    if options.image is not None:
        # Before an earlier rehearsal's record goes.
        container.open_image(options.image)
    folder = options.folder.absolute()
    make_fresh(folder)
    told = Told()
    with _signals(), contextlib.suppress(_StopError):
        return _rehearse(options, taken, folder, told)
    told.line("\ninterrupted; everything that was started has been ended")
    return INTERRUPTED


def _rehearse(options: CycleOptions, steps: Sequence[Step], folder: Path, told: Told) -> int:
    azure_options = Options(
        program_folder=TRAINER.parent,
        image=options.image,
        most_processes_per_node=1,
        allocation_seconds=1.0,
        most_idle_seconds=5.0,
        sync_seconds=0.3,
        roles=True,
    )
    with (
        Loopback(folder / _FIRST, azure_options) as azure,
        Deployment(azure, folder / "pulumi", STACK) as stack,
    ):
        _join_groups(azure, stack)
        told.line(f"The stack {STACK} on loopback: {azure.url} stands in for Azure")
        told.line(f"Pulumi {stack.version}, from {_short(stack.program)}")
        if options.image is not None:
            told.line(f"Jobs run in {options.image}")
        told.line(f"Everything that is written is in {_short(folder)}")
        cycle = take_all(steps, Scene(azure, stack, folder, told.live), told)
        write(cycle, folder)
        _conclude(cycle, folder, told)
        if options.keep and cycle.failed is None:
            _keep(stack, folder, told)
    return 0 if cycle.failed is None else 1


def _join_groups(azure: Loopback, stack: Deployment) -> None:
    """Have groups of people, as a directory has them, and this rehearsal's person in each."""
    for setting in ("people.publishers", "people.scientists"):
        group = new_id()
        stack.configure(setting, group)
        azure.identity.join(azure.environment["AZURE_CLIENT_ID"], group)


def take_all(steps: Sequence[Step], scene: Scene, told: Told) -> Cycle:
    began, taken = time.time(), list[Taken]()
    watch = Watch(scene.azure)
    try:
        for number, step in enumerate(steps, 1):
            if taken and taken[-1].outcome != "ok":
                taken.append(Taken(step.name, step.title, step.command, time.time(), 0, "skipped"))
                continue
            told.line(f"\n{f'{number}/{len(steps)}':>5}  {step.title}: {step.command}")
            taken.append(_take(step, scene))
            _tell(taken[-1], told)
    finally:
        watch.close()
    return Cycle(
        title=f"Stack {STACK} on loopback",
        began=began,
        seconds=time.time() - began,
        machine=_machine(scene.azure.options),
        engine_version=scene.stack.version,
        versions=tuple((name, metadata.version(name)) for name in _VERSIONS),
        steps=tuple(taken),
        attempts=scene.learnt.attempts,
        pools=watch.pools(),
        kinds=kinds(scene.azure.requests),
        links=tuple(_links(scene.folder)),
    )


def _machine(options: Options) -> str:
    jobs = "" if options.image is None else f", jobs in {options.image}"
    return f"{platform.system()}, {os.cpu_count()} cores{jobs}"


def _take(step: Step, scene: Scene) -> Taken:
    began = time.time()
    place: str | None = None
    try:
        lines, ok = tuple(step.take(scene)), True
    except CommandError as error:
        lines, ok, place = error.lines, False, str(error.place)
    except Exception as error:  # noqa: BLE001
        # Whatever a step stumbles over, the record and the place to look must be written.
        lines, ok, place = (f"{type(error).__name__}: {error}",), False, str(scene.folder / "logs")
    return Taken(
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
    """With paths in the repository from its root on, which is where the commands are given."""
    # Neither what only ends like the root, nor a URL, is a path from the root on.
    return re.sub(rf"(?<![\w./-]){re.escape(str(ROOT))}/(?=[\w.-])", "", text)


def _tell(step: Taken, told: Told) -> None:
    first, *others = step.lines or ("",)
    word = "ok" if step.outcome == "ok" else "FAILED"
    told.line(f"       {word:<6} {step.seconds:6.1f} s   {first}")
    for line in others:
        told.line(f"{'':25}{line}")


def _conclude(cycle: Cycle, folder: Path, told: Told) -> None:
    told.line()
    failed = cycle.failed
    if failed is None:
        told.line(f"all {len(cycle.steps)} steps ok in {_span(cycle.seconds)}")
    else:
        told.line(f"{failed.title}: failed; {_short(Path(failed.place or folder))} has its words")
    told.line(f"{_short(folder / PAGE)} shows what happened")


def _keep(stack: Deployment, folder: Path, told: Told) -> None:
    environment_file.write(folder, stack)
    told.line("It is left running. In another terminal:\n")
    told.line('  eval "$(make rehearse-env)"\n')
    told.line(
        f"and every pulumi and jobs command works on it. Ctrl-C here ends it (pid {os.getpid()})"
    )
    try:
        while True:
            signal.pause()
    except _StopError:
        told.line("\nended")
    finally:
        (folder / environment_file.FILE).unlink(missing_ok=True)


def write(cycle: Cycle, folder: Path) -> None:
    (folder / RECORD).write_text(to_json(cycle), encoding="utf-8")
    write_page(cycle, folder / PAGE)


def _links(folder: Path) -> Iterator[Link]:
    if (folder / "downloaded" / "report.html").is_file():
        yield Link("Report of the run", "downloaded/report.html")
    yield Link("What the commands said", "logs/")


def chosen(options: CycleOptions, steps: Sequence[Step]) -> Sequence[Step]:
    names = [step.name for step in steps]
    if options.until is not None and options.until not in names:
        raise RehearsalError(f"--until: there is no step {options.until!r}: {', '.join(names)}")
    last = len(steps) if options.until is None else names.index(options.until) + 1
    if options.keep and _LAST in names[:last]:
        last = names.index(_LAST)
    return steps[:last]


def _require_trainer() -> None:
    if not TRAINER.exists():
        raise RehearsalError(f"{_short(TRAINER)}: is not there; `make setup` installs the trainer")


def make_fresh(folder: Path) -> None:
    """Remove what an earlier rehearsal has left, and nothing else.

    Raises:
        RehearsalError: one is still running, or the folder is somebody else's.
    """
    process = owner(folder / _FIRST)
    if process is not None:
        raise RehearsalError(
            f"{_short(folder)}: process {process} rehearses there already; end it (Ctrl-C where it"
            " runs), or give another --folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    found = {path.name for path in folder.iterdir()}
    # Every rehearsal makes this one first; without it the others are somebody's of the same names.
    strange = sorted(found - _OURS if _FIRST in found else found)
    if strange:
        raise RehearsalError(
            f"{_short(folder)}: holds {', '.join(strange)}, which no rehearsal has written; give"
            " another --folder"
        )
    for path in sorted(folder.iterdir(), key=lambda one: one.name == _FIRST):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        # A second signal must not keep the first from ending everything.
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise _StopError

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else shlex.quote(str(path))


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
