"""`python -m rehearsal`: the simulator of Azure, and a rehearsal of a platform's life cycle."""

import argparse
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rehearsal.cycle import environment_file, runner
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import StopError, stop_signals
from rehearsal.options import Options
from rehearsal.page.cycle_page import write_page_of
from rehearsal.simulator import Simulator, without_proxy


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    options = _parser().parse_args(arguments)
    os.environ |= without_proxy(os.environ)
    try:
        return int(options.run(options))
    except RehearsalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rehearsal",
        description="Rehearse the platform against a simulator of Azure on this machine.",
    )
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], what: str) -> Any:
        added = commands.add_parser(name, help=what)
        added.set_defaults(run=run)
        return added

    serve = command(
        "serve",
        _serve,
        "start the simulator, print the environment variables for its clients, run until Ctrl-C",
    )
    serve.add_argument(
        "--state",
        type=Path,
        help="folder for all state; without it, a temporary one that is deleted at the end",
    )
    serve.add_argument(
        "--port", type=int, default=0, help="control plane's port (default: 0, any free)"
    )
    serve.add_argument("--program-folder", type=Path, help="folder to put first on jobs' PATH")
    serve.add_argument("--image", help="image to run jobs in; without it, jobs are local processes")
    serve.add_argument(
        "--max-processes-per-node",
        type=int,
        help="most processes of a job per node, for machines with few cores",
    )
    serve.add_argument(
        "--mean-node-seconds",
        type=_positive_seconds,
        help="mean time until a Spot node is pre-empted at random; without it, none is",
    )
    serve.add_argument(
        "--notice-seconds",
        type=float,
        default=0.0,
        help="time from the notice of such a pre-emption to its end, 30 on Azure; 0 for no notice",
    )
    serve.add_argument(
        "--capacity",
        type=Path,
        help="CSV file with the Spot nodes that there are: hours, nodes, price",
    )
    serve.add_argument(
        "--hours-per-second",
        type=_positive_seconds,
        default=1.0,
        help="hours of that file that pass in a second (default: 1)",
    )
    serve.add_argument(
        "--seed", type=int, default=0, help="seed of the random pre-emptions (default: 0)"
    )
    cycle = command(
        "cycle",
        _cycle,
        "deploy the dev stack, train on it through a pre-emption, and tear it down",
    )
    cycle.add_argument(
        "--folder",
        type=Path,
        default=runner.FOLDER,
        help="folder for all output (default: %(default)s)",
    )
    cycle.add_argument("--until", help="name of the last step to run; without it, all steps run")
    cycle.add_argument("--image", help="image to run jobs in; without it, .venv-trainer")
    cycle.add_argument(
        "--keep", action="store_true", help="stop before the teardown, and keep the stack running"
    )
    environment = command(
        "environment", _environment, "print the environment variables of a cycle that was kept"
    )
    environment.add_argument(
        "--folder",
        type=Path,
        default=runner.FOLDER,
        help="folder of the cycle (default: %(default)s)",
    )
    page = command("page", _page, "write the HTML page of a cycle from its record")
    page.add_argument("record", type=Path, help="JSON record that a cycle wrote")
    page.add_argument(
        "--to", type=Path, help="file to write; without it, rehearsal.html beside the record"
    )
    return parser


def _positive_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text}: must be greater than 0")
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
        raise RehearsalError(f"--program-folder: {options.program_folder} is not a folder")
    azure_options = Options(
        program_folder=options.program_folder and options.program_folder.absolute(),
        image=options.image,
        max_processes_per_node=options.max_processes_per_node,
        mean_node_seconds=options.mean_node_seconds,
        notice_seconds=options.notice_seconds,
        capacity=options.capacity,
        hours_per_second=options.hours_per_second,
        seed=options.seed,
    )
    with (
        stop_signals(),
        contextlib.suppress(StopError),
        Simulator(options.state, azure_options, options.port) as azure,
    ):
        for name, value in azure.environment.items():
            print(f"export {name}={shlex.quote(value)}")
        sys.stdout.flush()
        print(f"Simulator of Azure: {azure.url}; press Ctrl-C to stop", file=sys.stderr)
        while True:
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
