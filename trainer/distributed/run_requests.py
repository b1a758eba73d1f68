"""Requests to a run while it trains, and the answers of its ranks: files in the run's folder.

The folder may be on a mount of blob storage that caches the attributes of a file, so no file is
ever changed or read again: every request has a name of its own that says everything, and is found
by listing the folder; every rank answers in another file. The names begin with a dot, as those of
all temporary files in the folder. Both files are removed by the process that asked.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

from common.text import duration
from trainer.distributed.watchdog import SILENT_SECONDS, Heartbeat, late_ranks
from trainer.errors import RunRequestError

POLL_SECONDS: Final = 10.0
"""Seconds between two looks of a rank for requests. One look is one listing of the run's folder."""
ASK_SECONDS: Final = 1.0
"""Seconds between two looks for answers."""
EXPIRY_SECONDS: Final = 600.0
"""Age in seconds at which a request from before a rank listened is ignored: the process that asked
has ended without removing it."""
STUCK_SECONDS: Final = 30.0
"""Seconds without progress on all ranks after which they count as stuck, and the late rank is
named. Ranks answer up to `POLL_SECONDS` apart, so before that their steps cannot be compared."""

Action = Literal["stacks", "profile", "release"]
"""stacks: print the stacks of all threads; profile: record steps; release: end a node that is kept
after a failure."""

_REQUEST: Final = re.compile(r"\.request-([0-9a-f]{12})-(stacks|profile|release)-(\d{1,6})")


HOLD_MINUTES: Final = "TRAINER_HOLD_ON_FAILURE_MINUTES"
"""Environment variable of a job: minutes to keep the node of a rank that has failed."""
DEBUG: Final = "TRAINER_DEBUG"
"""Environment variable: the rank that waits for a debugger before its first step, as RANK or
RANK:PORT."""
DEBUG_PORT: Final = 5678
"""Default port at which that rank waits, on the loopback address of its node alone."""
HELD: Final = ".held-"
"""Prefix of the names of files that say until when the node of a failed rank is kept."""


def held_file(rank: int) -> str:
    """Return the name of the file that says until when the node of a failed rank is kept."""
    return f"{HELD}{rank}.json"


@dataclass(frozen=True)
class RunRequest:
    """A request to all ranks of a run, or to rank 0."""

    action: Action
    steps: int = 0
    """Steps to record; 0 for other requests."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def file(self) -> str:
        """Name of the request's file, which is empty."""
        return f".request-{self.id}-{self.action}-{self.steps}"

    @property
    def answers(self) -> str:
        """Prefix of the names of all files that answer it."""
        return f".answer-{self.id}-"

    def answer_file(self, rank: int) -> str:
        """Return the name of a rank's answer."""
        return f"{self.answers}{rank}.json"

    @classmethod
    def parse(cls, file: str) -> Self | None:
        """Return the request of a file; None for any other file."""
        match = _REQUEST.fullmatch(file)
        return cls(match[2], int(match[3]), match[1]) if match else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stack:
    """A thread of a rank and where it is."""

    thread: str
    frames: tuple[str, ...]
    """Calls, the outermost first."""


@dataclass(frozen=True)
class RankState:
    """The answer of a rank to a request for stacks."""

    rank: int
    size: int
    """World size."""
    host: str
    heartbeat: Heartbeat
    idle_seconds: float
    """Seconds since its last step or other progress."""
    stacks: tuple[Stack, ...]
    node: Mapping[int, tuple[Heartbeat, float]]
    """Last heartbeats of the ranks of its node, with their ages in seconds."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parse what `to_json` returned.

        Raises:
            ValueError: The text is something else, or incomplete.
        """
        try:
            data = json.loads(text)
            return cls(
                **{
                    **data,
                    "heartbeat": Heartbeat(**data["heartbeat"]),
                    "stacks": tuple(Stack(s["thread"], tuple(s["frames"])) for s in data["stacks"]),
                    "node": {
                        int(rank): (Heartbeat(**heartbeat), age)
                        for rank, (heartbeat, age) in data["node"].items()
                    },
                }
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a rank: {error}") from error

    def words(self) -> str:
        """Say where the rank is and what it waits for."""
        beat = self.heartbeat
        text = f"rank {self.rank} on {self.host}: phase {beat.phase!r}, {beat.step:,} steps done, "
        text += f"last progress {duration(self.idle_seconds)} ago"
        if beat.phase != "train":
            return text
        if beat.arrived:
            return f"{text}; waits for the other ranks' parts of step {beat.step + 1:,}"
        return f"{text}; waits for data of step {beat.step + 1:,}, or computes it"


def stuck_text(states: Mapping[int, RankState], missing: Collection[int]) -> str:
    """Say whether the run makes progress, and if not, which rank the others wait for.

    Args:
        states: Answers by rank.
        missing: Ranks that have not answered.
    """
    size = max((state.size for state in states.values()), default=0)
    seen = [item for state in states.values() for item in state.node.items()]
    # The freshest sign of life of a rank comes last, and an answer is fresher than any.
    known = dict(sorted(seen, key=lambda item: -item[1][1]))
    known |= {rank: (state.heartbeat, 0.0) for rank, state in states.items()}
    idle = min((state.idle_seconds for state in states.values()), default=0.0)
    lines = [f"rank {rank}: has not answered; {_silence(known.get(rank))}" for rank in missing]
    if idle < STUCK_SECONDS:
        lines.append(f"the run makes progress: the last step or other sign was {idle:.0f} s ago")
    else:
        late = late_ranks(known, size)
        lines.append(f"no progress for {duration(idle)}; the late rank is {late}")
    return "\n".join(lines)


def _silence(seen: tuple[Heartbeat, float] | None) -> str:
    """Say why a rank may not have answered, given its last heartbeat with its age in seconds."""
    if seen is None:
        return (
            "nothing else is known of it: it has not started, has ended, is frozen, or a thread"
            " holds Python's lock (GIL)"
        )
    if seen[1] <= SILENT_SECONDS:
        return "it was alive when others answered, so its mount of the run's folder may hang"
    return (
        f"its last sign of life was {duration(seen[1])} ago, after step {seen[0].step:,}: it is"
        " frozen, has no CPU time, or a thread holds Python's lock (GIL), without which no thread"
        " can answer"
    )


class RunFiles(Protocol):
    """The folder of a run, as seen by the process that asks."""

    def create(self, name: str) -> None:
        """Create an empty file."""

    def read(self, prefix: str, known: Collection[str]) -> Mapping[str, bytes]:
        """Return the content of the files whose names begin with a text, except the known ones."""

    def remove(self, prefix: str, older_than: float = 0.0) -> None:
        """Remove the files whose names begin with a text, if they are older than some seconds."""


class LocalFiles:
    """The folder of a run on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, name: str) -> None:
        (self._folder / name).touch()

    def read(self, prefix: str, known: Collection[str]) -> Mapping[str, bytes]:
        new = (path for path in self._matches(prefix) if path.name not in known)
        return {path.name: path.read_bytes() for path in new}

    def remove(self, prefix: str, older_than: float = 0.0) -> None:
        for path in self._matches(prefix):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime >= older_than:
                    path.unlink()

    def _matches(self, prefix: str) -> list[Path]:
        return [path for path in self._folder.iterdir() if path.name.startswith(prefix)]


def ask(
    files: RunFiles, request: RunRequest, seconds: float, enough: int | None = None
) -> Generator[tuple[int, bytes], None, None]:
    """Send a request, and yield the answers as they come, by rank.

    The files are removed when the generator ends or is closed.

    Args:
        files: Folder of the run.
        request: The request.
        seconds: Longest time to wait.
        enough: Number of answers to wait for; None waits until the time is over.
    """
    known: set[str] = set()
    deadline = time.monotonic() + seconds
    # A rank may have answered after the one who asked had gone.
    for prefix in (".request-", ".answer-"):
        files.remove(prefix, EXPIRY_SECONDS)
    files.create(request.file)
    try:
        while True:
            last = time.monotonic() > deadline
            for name, content in files.read(request.answers, known).items():
                try:
                    json.loads(content)
                except ValueError:
                    # A mount shows a file before all of it; it is read again later.
                    continue
                known.add(name)
                yield int(name.removeprefix(request.answers).removesuffix(".json")), content
            if last or len(known) == enough:
                return
            time.sleep(ASK_SECONDS)
    finally:
        files.remove(request.file)
        files.remove(request.answers)


def show_stacks(
    files: RunFiles,
    size: int | None,
    seconds: float,
    say: Callable[[str], None],
) -> tuple[dict[int, RankState], list[int]]:
    """Ask all ranks for their stacks, and print each answer when it comes. Stacks that are the same
    as those of another rank are not repeated.

    Args:
        files: Folder of the run.
        size: World size, if it is known.
        seconds: Longest time to wait for all ranks.
        say: Prints a text.

    Returns:
        The answers by rank, and the ranks that have not answered.
    """
    states: dict[int, RankState] = {}
    shown: dict[Stack, int] = {}
    with closing(ask(files, RunRequest("stacks"), seconds)) as answers:
        for rank, content in answers:
            states[rank] = state = RankState.from_json(content)
            size = state.size
            say(f"{state.words()}\n{_stacks(state, shown)}")
            if len(states) == size:
                break
    missing = [rank for rank in range(size or 0) if rank not in states]
    if states:
        say(stuck_text(states, missing))
    return states, missing


def _stacks(state: RankState, shown: dict[Stack, int]) -> str:
    """Format the stacks of a rank, without those that another rank has as well."""
    lines = []
    for stack in state.stacks:
        first = shown.setdefault(stack, state.rank)
        if first != state.rank:
            lines.append(f"  thread {stack.thread}: as in rank {first}")
            continue
        lines.append(f"  thread {stack.thread}:")
        lines += [f"    {frame}" for frame in stack.frames]
    return "\n".join(lines)


def read_profile(content: bytes) -> dict[str, Any]:
    """Parse rank 0's answer to a request for a profile.

    Raises:
        RunRequestError: The profiler could not record.
    """
    answer: dict[str, Any] = json.loads(content)
    if answer.get("error"):
        raise RunRequestError(f"the profile could not be recorded: {answer['error']}")
    return answer
