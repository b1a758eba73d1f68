"""Runs commands as a user would, and keeps the output of each in a file."""

import contextlib
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from rehearsal.errors import RehearsalError

_SHOWN: Final = 15
"""Lines of a failed command's output that its error includes."""
_WORD: Final = re.compile(r"[\w./][\w./-]*")
_NAMING: Final = 3
"""Words of a command that its log file is named after."""
_GRACE_SECONDS: Final = 10.0
"""Seconds from SIGTERM to SIGKILL of a command that is no longer waited for."""


class CommandError(RehearsalError):
    """A command did not end as expected.

    Args:
        lines: The problem, and the last lines of the output.
        log: File with the whole output.
    """

    def __init__(self, lines: Sequence[str], log: Path) -> None:
        super().__init__("\n".join(lines))
        self.lines, self.log = tuple(lines), log


class CommandRunner:
    """Runs commands.

    Args:
        folder: Folder for their logs.
        root: Working directory of the commands.
        environment: Returns the environment of a command; called for each.
        end: Ends a command and all processes that it has started, even if their parent has changed.
        seconds: Timeout of a command.
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
    ) -> str:
        """Run a command to its end, and return its output, which is kept in a file as well.

        Args:
            command: Program and arguments.
            status: Expected exit status.
            on_line: Called with each line of output as it comes.
            separate: Whether to keep stdout apart from stderr, and return it alone.

        Raises:
            CommandError: it exited with another status, or did not finish in time.
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
        return answer if separate else text

    def serve(self, command: Sequence[str | Path]) -> tuple[Path, subprocess.Popen[str]]:
        """Start a command that runs until it is stopped; return the file of its stdout, and the
        process.

        Both streams go to files, because they are not read meanwhile.
        """
        log = self._log(command)
        with log.open("w") as errors, _answer_file(log).open("w") as answer:
            return _answer_file(log), self._open(command, answer, errors)

    def _start(
        self, command: Sequence[str | Path], *, separate: bool
    ) -> tuple[Path, subprocess.Popen[str]]:
        log = self._log(command)
        with contextlib.ExitStack() as opened:
            # A file, because a pipe for stdout would only be read after stderr has ended.
            stdout = opened.enter_context(_answer_file(log).open("w")) if separate else None
            process = self._open(
                command,
                stdout or subprocess.PIPE,
                subprocess.PIPE if separate else subprocess.STDOUT,
            )
        return log, process

    @contextlib.contextmanager
    def _limit(self) -> Iterator[threading.Event]:
        """End a command at the timeout; the event tells whether that happened."""
        late = threading.Event()

        def end() -> None:
            late.set()
            # Its child processes hold the pipe open, so ending the command alone is not enough.
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
    """End a process that is not read to its end; leaving the block would wait for it otherwise."""
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
