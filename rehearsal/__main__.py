"""`python -m rehearsal`: Azure on loopback, and the whole cycle of a platform on it."""

import argparse
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rehearsal.cycle import environment_file, runner
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import StopError, stop_signals
from rehearsal.loopback import Loopback, without_proxy
from rehearsal.options import Options
from rehearsal.page.cycle_page import write_page_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    options = _parser().parse_args(arguments)
    os.environ |= without_proxy(os.environ)
    try:
        return int(options.run(options))
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
    serve.add_argument("--max-processes-per-node", type=int, help="cap for machines with few cores")
    serve.add_argument("--most-processes-per-node", action=_Renamed, help=argparse.SUPPRESS)
    serve.add_argument(
        "--mean-node-seconds",
        type=_positive_seconds,
        help="that a node of low priority stays on average; none is pre-empted by chance if not"
        " given",
    )
    serve.add_argument("--seed", type=int, default=0, help="of the chance of pre-emptions")
    cycle = command(
        "cycle", _cycle, "deploy the dev stack, train on it, lose the nodes, and tear it down"
    )
    cycle.add_argument("--folder", type=Path, default=runner.FOLDER, help="for all that is written")
    cycle.add_argument("--until", help="name of the last step; all of them if not given")
    cycle.add_argument("--image", help="that jobs run in; .venv-trainer if not given")
    cycle.add_argument(
        "--keep", action="store_true", help="stop before the teardown, and leave it running"
    )
    environment = command(
        "environment", _environment, "print the variables that find a cycle which was kept"
    )
    environment.add_argument("--folder", type=Path, default=runner.FOLDER, help="of the cycle")
    page = command("page", _page, "draw the page of a cycle from its record")
    page.add_argument("record", type=Path, help="JSON file that a cycle has written")
    page.add_argument("--to", type=Path, help="the page; rehearsal.html beside the record if none")
    return parser


class _Renamed(argparse.Action):
    """An option that has another name now: `most` became `max`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002
        values: object,  # noqa: ARG002
        option_string: str | None = None,
    ) -> NoReturn:
        name = str(option_string)
        parser.error(f"{name}: is now {name.replace('most', 'max')}")


def _positive_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text}: must be more than 0")
    return seconds


def _cycle(options: argparse.Namespace) -> int:
    return runner.run(
        runner.CycleOptions(
            folder=options.folder, until=options.until, keep=options.keep, image=options.image
        )
    )


def _environment(options: argparse.Namespace) -> int:
    print(environment_file.read(options.folder, os.environ), end="")
    return 0


def _page(options: argparse.Namespace) -> int:
    print(write_page_of(options.record, options.to))
    return 0


def _serve(options: argparse.Namespace) -> int:
    if options.program_folder and not options.program_folder.is_dir():
        raise RehearsalError(f"--program-folder: {options.program_folder}: is no folder")
    azure_options = Options(
        program_folder=options.program_folder and options.program_folder.absolute(),
        image=options.image,
        max_processes_per_node=options.max_processes_per_node,
        mean_node_seconds=options.mean_node_seconds,
        seed=options.seed,
    )
    with (
        stop_signals(),
        contextlib.suppress(StopError),
        Loopback(options.state, azure_options, options.port) as azure,
    ):
        for name, value in azure.environment.items():
            print(f"export {name}={shlex.quote(value)}")
        sys.stdout.flush()
        print(f"Azure on loopback: {azure.url}; Ctrl-C ends it", file=sys.stderr)
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
