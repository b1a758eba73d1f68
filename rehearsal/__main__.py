"""`python -m rehearsal`: the simulator of Azure, and a rehearsal of a platform's life cycle."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rehearsal import serve
from rehearsal.cycle import environment_file, runner
from rehearsal.errors import RehearsalError
from rehearsal.page.cycle_page import write_page_of
from rehearsal.simulator import without_proxy


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

    serve.add_options(
        command(
            "serve",
            serve.run,
            "start the simulator, and run a command with it, or print the environment variables for"
            " its clients and run until Ctrl-C",
        )
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
        "--to", type=Path, help="file to write; without it, rehearsal.html next to the record"
    )
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
