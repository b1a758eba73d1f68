"""`python -m rehearsal serve`: Azure on loopback until Ctrl-C; `page`: a record as a page."""

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback
from rehearsal.options import Options
from rehearsal.page.write import write_again


class _StopError(Exception):
    """A signal asked for the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal", description="Azure on this machine's loopback."
    )
    verbs = parser.add_subparsers(required=True)
    serve = verbs.add_parser(
        "serve",
        help="start it, print the environment that finds it, and run until Ctrl-C",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    serve.add_argument("--state", type=Path, required=True, help="folder that keeps everything")
    serve.add_argument("--port", type=int, default=0, help="of the control plane; 0: a free one")
    serve.add_argument("--program-folder", type=Path, help="first on the PATH of jobs")
    serve.add_argument(
        "--most-processes-per-node", type=int, help="cap for machines with few cores"
    )
    serve.set_defaults(do=_serve)
    page = verbs.add_parser("page", help="draw the page of a rehearsal from its record")
    page.add_argument("record", type=Path, help="JSON file that a rehearsal has written")
    page.add_argument("--to", type=Path, help="the page; rehearsal.html beside the record if none")
    page.set_defaults(do=_page)
    given = parser.parse_args(arguments)
    try:
        return int(given.do(given))
    except RehearsalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _page(given: argparse.Namespace) -> int:
    print(write_again(given.record, given.to))
    return 0


def _serve(given: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    if given.program_folder and not given.program_folder.is_dir():
        print(f"error: --program-folder: {given.program_folder}: is no folder", file=sys.stderr)
        return 1
    options = Options(
        program_folder=given.program_folder and given.program_folder.absolute(),
        most_processes_per_node=given.most_processes_per_node,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        with Loopback(given.state, options, given.port) as azure:
            for name, value in azure.environment.items():
                print(f"export {name}={shlex.quote(value)}")
            sys.stdout.flush()
            print(f"Azure on loopback: {azure.url}; Ctrl-C ends it", file=sys.stderr)
            while True:
                signal.pause()
    except _StopError:
        return 0


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    # A second signal must not keep the first from ending everything.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, signal.SIG_IGN)
    raise _StopError


if __name__ == "__main__":
    sys.exit(main())
