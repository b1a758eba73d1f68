"""Commands as a person gives them, each with its output kept in a file."""

import contextlib
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from rehearsal.errors import RehearsalError

_SHOWN: Final = 15
"""Lines of a failed command's output that its error shows."""
_WORD: Final = re.compile(r"[\w./][\w./-]*")
_NAMING: Final = 3
"""Words of a command that name its log."""
_GRACE_SECONDS: Final = 10.0
"""From SIGTERM to SIGKILL of a command that nobody waits for any more."""


class CommandError(RehearsalError):
    """A command ended otherwise than it should.

    Args:
        lines: what is wrong, and the last lines of its output.
        log: file with all of its output.
    """

    def __init__(self, lines: Sequence[str], log: Path) -> None:
        super().__init__("\n".join(lines))
        self.lines, self.log = tuple(lines), log


@dataclass(frozen=True)
class CommandOutput:
    """What a command has written."""

    text: str
    """Stdout and stderr, in their order."""
    answer: str
    """Stdout alone if it was kept apart, and otherwise all of the text."""
    log: Path


class CommandRunner:
    """Runs commands.

    Args:
        folder: for their logs.
        root: where they run.
        environment: gives the variables of each; called each time.
        end: ends a command with all that it has started, whoever its parent is by then.
        seconds: that a command may take.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        environment: Callable[[], Mapping[str, str]],
        end: Callable[[], None],
        seconds: float = 1200.0,
    ) -> None:
        self._folder, self._root, self._environment = folder, root, environment
        self._end, self._seconds = end, seconds
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        status: int = 0,
        on_line: Callable[[str], None] | None = None,
        separate: bool = False,
    ) -> CommandOutput:
        """Run a command to its end.

        Args:
            command: program and arguments.
            status: that it must end with.
            on_line: called with each line when it comes.
            separate: whether stdout is an answer, which is kept apart from stderr.

        Raises:
            CommandError: it ended with another status, or did not end.
        """
        log, process = self._start(command, separate=separate)
        lines = []
        with (
            self._limit() as late,
            process,
            _ending(process),
            log.open("w", encoding="utf-8") as file,
        ):
            stream = process.stderr if separate else process.stdout
            assert stream is not None
            for line in stream:
                file.write(line)
                file.flush()
                lines.append(line)
                if on_line is not None:
                    on_line(line.rstrip())
        answer = _answer_file(log).read_text(encoding="utf-8") if separate else ""
        text = "".join(lines)
        if process.returncode != status:
            problem = f"exited with status {process.returncode}, expected {status}"
            if late.is_set():
                problem = f"did not finish within {self._seconds:g} s"
            raise CommandError(
                [
                    f"{shlex.join(str(part) for part in command)}: {problem}",
                    *f"{text}{answer}".rstrip().splitlines()[-_SHOWN:],
                ],
                log,
            )
        return CommandOutput(text + answer, answer or text, log)

    def serve(self, command: Sequence[str | Path]) -> tuple[Path, subprocess.Popen[str]]:
        """Start a command that serves until it is ended; the file of its answer, and the process.

        Both of its streams go to files: nobody reads them meanwhile.
        """
        log = self._log(command)
        with log.open("w") as errors, _answer_file(log).open("w") as answer:
            return _answer_file(log), self._open(command, answer, errors)

    def _start(
        self, command: Sequence[str | Path], *, separate: bool
    ) -> tuple[Path, subprocess.Popen[str]]:
        log = self._log(command)
        with contextlib.ExitStack() as opened:
            # A file, as nobody reads a pipe for the answer until all else has been read.
            stdout = opened.enter_context(_answer_file(log).open("w")) if separate else None
            process = self._open(
                command,
                stdout or subprocess.PIPE,
                subprocess.PIPE if separate else subprocess.STDOUT,
            )
        return log, process

    @contextlib.contextmanager
    def _limit(self) -> Iterator[threading.Event]:
        """End what takes too long; set if that was so."""
        late = threading.Event()

        def end() -> None:
            late.set()
            # What it has started holds its pipe open, so that ending it alone would not be enough.
            self._end()

        timer = threading.Timer(self._seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _log(self, command: Sequence[str | Path]) -> Path:
        self._count += 1
        names = [Path(part).name for part in command if _WORD.fullmatch(str(part))]
        return self._folder / f"{self._count:02}-{'-'.join(names[:_NAMING])}.log"

    def _open(
        self, command: Sequence[str | Path], stdout: int | TextIO, stderr: int | TextIO
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(part) for part in command],
            cwd=self._root,
            env=dict(self._environment()),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            errors="replace",
        )


@contextlib.contextmanager
def _ending(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process that is not read to its end: whoever leaves would wait for it otherwise."""
    try:
        yield
    except BaseException:
        process.terminate()
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def _answer_file(log: Path) -> Path:
    return log.with_suffix(".out")
