"""`python -m rehearsal`: Azure on loopback, and the whole cycle of a platform on it."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rehearsal.cycle import environment_file, runner
from rehearsal.cycle.runner import FOLDER
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback, direct
from rehearsal.options import Options
from rehearsal.page.cycle_page import write_page_of


class _StopError(Exception):
    """A signal asked for the end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    given = _parser().parse_args(arguments)
    os.environ |= direct(os.environ)
    try:
        return int(given.run(given))
    except RehearsalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal", description="Azure on this machine's loopback."
    )
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], what: str) -> Any:
        added = commands.add_parser(
            name, help=what, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        added.set_defaults(run=run)
        return added

    serve = command(
        "serve", _serve, "start it, print the environment that finds it, and run until Ctrl-C"
    )
    serve.add_argument("--state", type=Path, required=True, help="folder that keeps everything")
    serve.add_argument("--port", type=int, default=0, help="of the control plane; 0: a free one")
    serve.add_argument("--program-folder", type=Path, help="first on the PATH of jobs")
    serve.add_argument("--image", help="that jobs run in; processes of this machine if not given")
    serve.add_argument(
        "--most-processes-per-node", type=int, help="cap for machines with few cores"
    )
    serve.add_argument(
        "--mean-node-seconds",
        type=_some_seconds,
        help="that a node of low priority stays on average; none is taken by chance if not given",
    )
    serve.add_argument("--seed", type=int, default=0, help="of the chance that takes nodes away")
    cycle = command(
        "cycle", _cycle, "deploy the dev stack, train on it, lose the nodes, and tear it down"
    )
    cycle.add_argument("--folder", type=Path, default=FOLDER, help="for all that is written")
    cycle.add_argument("--until", help="name of the last step; all of them if not given")
    cycle.add_argument("--image", help="that jobs run in; .venv-trainer if not given")
    cycle.add_argument(
        "--keep", action="store_true", help="stop before the teardown, and leave it running"
    )
    kept = command(
        "environment", _environment, "print the variables that find a cycle which was kept"
    )
    kept.add_argument("--folder", type=Path, default=FOLDER, help="of the cycle")
    page = command("page", _page, "draw the page of a cycle from its record")
    page.add_argument("record", type=Path, help="JSON file that a cycle has written")
    page.add_argument("--to", type=Path, help="the page; rehearsal.html beside the record if none")
    return parser


def _some_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text}: must be more than 0")
    return seconds


def _cycle(given: argparse.Namespace) -> int:
    return runner.run(
        runner.CycleOptions(
            folder=given.folder, until=given.until, keep=given.keep, image=given.image
        )
    )


def _environment(given: argparse.Namespace) -> int:
    print(environment_file.read(given.folder, os.environ), end="")
    return 0


def _page(given: argparse.Namespace) -> int:
    print(write_page_of(given.record, given.to))
    return 0


def _serve(given: argparse.Namespace) -> int:
    if given.program_folder and not given.program_folder.is_dir():
        raise RehearsalError(f"--program-folder: {given.program_folder}: is no folder")
    options = Options(
        program_folder=given.program_folder and given.program_folder.absolute(),
        image=given.image,
        most_processes_per_node=given.most_processes_per_node,
        mean_node_seconds=given.mean_node_seconds,
        seed=given.seed,
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
