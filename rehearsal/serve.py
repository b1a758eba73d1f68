"""`python -m rehearsal serve`: the simulator alone, for a terminal, or for one command."""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rehearsal.errors import AzureError, RehearsalError
from rehearsal.lifetime import StopError, stop_signals
from rehearsal.options import Options
from rehearsal.simulator import Simulator


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, and the command that it may run."""
    parser.add_argument(
        "command",
        nargs="*",
        metavar="-- COMMAND",
        help="command to run with these variables; the simulator ends with it, with its status",
    )
    parser.add_argument(
        "--state",
        type=Path,
        help="folder for all state; without it, a temporary one that is deleted at the end",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="control plane's port (default: 0, any free)"
    )
    parser.add_argument(
        "--resources",
        type=Path,
        help="JSON file with the resources to begin with: an object of their bodies by their ids",
    )
    parser.add_argument(
        "--quota",
        type=_quota,
        action="append",
        default=[],
        metavar="REGION:NAME=CORES",
        help="quota of cores, such as westeurope:totalLowPriorityCores=24; can be repeated",
    )
    parser.add_argument(
        "--deny",
        action="append",
        default=[],
        metavar="PATTERN",
        help="refuse requests as if their caller lacked a role: regular expression, searched in"
        " 'METHOD /path?query'; can be repeated",
    )
    parser.add_argument(
        "--roles",
        action="store_true",
        help="give the client no role: access to blobs, jobs and assets needs assignments",
    )
    parser.add_argument(
        "--role-seconds",
        type=float,
        default=0.0,
        help="time until an assigned role has an effect, up to 600 on Azure (default: 0)",
    )
    parser.add_argument(
        "--throttle",
        action="store_true",
        help="answer 429 with Retry-After beyond Resource Manager's rates of requests",
    )
    parser.add_argument("--program-folder", type=Path, help="folder to put first on jobs' PATH")
    parser.add_argument(
        "--image", help="image to run jobs in; without it, jobs are local processes"
    )
    parser.add_argument(
        "--max-processes-per-node",
        type=int,
        help="most processes of a job per node, for machines with few cores",
    )
    parser.add_argument(
        "--mean-node-seconds",
        type=_positive,
        help="mean time until a Spot node is pre-empted at random; without it, none is",
    )
    parser.add_argument(
        "--notice-seconds",
        type=float,
        default=0.0,
        help="time from the notice of such a pre-emption to its end, 30 on Azure; 0 for no notice",
    )
    parser.add_argument(
        "--spot-trace",
        type=Path,
        help="CSV file with the Spot nodes that there are: hours, nodes, price",
    )
    parser.add_argument(
        "--hours-per-second",
        type=_positive,
        default=1.0,
        help="hours of that file that pass in a second (default: 1)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random pre-emptions (default: 0)"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until a signal comes, or until the command ends.

    Returns:
        Exit status of the command; 0 without one.

    Raises:
        RehearsalError: an option cannot be used.
    """
    if options.program_folder and not options.program_folder.is_dir():
        raise RehearsalError(f"--program-folder: {options.program_folder} is not a folder")
    resources = _read(options.resources) if options.resources else {}
    azure_options = Options(
        program_folder=options.program_folder and options.program_folder.absolute(),
        image=options.image,
        max_processes_per_node=options.max_processes_per_node,
        mean_node_seconds=options.mean_node_seconds,
        notice_seconds=options.notice_seconds,
        capacity=options.spot_trace,
        hours_per_second=options.hours_per_second,
        seed=options.seed,
        roles=options.roles,
        role_seconds=options.role_seconds,
        throttle=options.throttle,
    )
    with (
        stop_signals(),
        contextlib.suppress(StopError),
        Simulator(options.state, azure_options, options.port) as azure,
    ):
        for region, name, cores in options.quota:
            azure.admin.quota(region, name, cores)
        for identifier, body in resources.items():
            _put(azure, identifier, body)
        # After the resources, which are not requests of a client.
        for pattern in options.deny:
            try:
                azure.admin.forbid(None, pattern)
            except re.error as error:
                raise RehearsalError(f"--deny: {pattern!r}: {error}") from error
        if options.command:
            return _run(azure, options.command)
        for name, value in azure.environment.items():
            print(f"export {name}={shlex.quote(value)}")
        sys.stdout.flush()
        print(f"Simulator of Azure: {azure.url}; press Ctrl-C to stop", file=sys.stderr)
        while True:
            signal.pause()
    return 0


def _run(azure: Simulator, command: list[str]) -> int:
    """Run a command, which ends with the simulator, and return its exit status."""
    try:
        with subprocess.Popen(
            command, env=azure.marked({**os.environ, **azure.environment})
        ) as process:
            return process.wait()
    except OSError as error:
        raise RehearsalError(f"{command[0]}: cannot be run ({error.strerror})") from error
    finally:
        azure.end_commands()


def _put(azure: Simulator, identifier: str, body: Mapping[str, Any]) -> None:
    try:
        azure.put(identifier, "", dict(body))
    except AzureError as error:
        raise RehearsalError(f"--resources: {identifier}: {error.message}") from error


def _read(path: Path) -> dict[str, Mapping[str, Any]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RehearsalError(f"--resources: {path}: {error}") from error
    if not isinstance(data, dict) or not all(isinstance(value, dict) for value in data.values()):
        raise RehearsalError(f"--resources: {path}: must be a JSON object of bodies by their ids")
    return data


def _quota(text: str) -> tuple[str, str, int]:
    match = re.fullmatch(r"(\w+):(\w+)=(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be REGION:NAME=CORES, such as westeurope:totalLowPriorityCores=24"
        )
    return match[1], match[2], int(match[3])


def _positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text}: must be greater than 0")
    return number
