"""The command line: `python -m jobs COMMAND`.

A command's module is imported only when the command runs: some need libraries that take seconds to
import.
"""

import difflib
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_origin

from common import fields
from common.arguments import parse, split_positional
from common.errors import INTERRUPTED, ConfigError, UserError
from jobs.console import PLATFORM
from jobs.errors import NotDeployedError
from jobs.exit_status import BROKEN_PIPE
from jobs.pulumi.stack_outputs import read_outputs
from jobs.spec.from_options import REPOSITORY

USAGE = """\
usage: python -m jobs COMMAND [NAME] [options] [-- options of the trainer]

  preview      show what deploying the platform would change
  up           deploy the platform, or the changes to it
  preflight    check whether a run could start: sign-in, network, cluster, quota, image, data
  submit       run a training (or --kind smoke, benchmark, check) and follow it to its end:
               submit --preset imagenet-ndv2 --nodes 4 --data.asset imagenet:VERSION -- --epochs 90
  prepare      convert raw images into shards, as a job:
               prepare imagenet --raw ilsvrc2012 --prepared imagenet -- --train FILE ...
  spec         print the job as YAML for `az ml job create`, without submitting it
  follow       show the output of a run until it ends; --supervise submits the run again if its
               nodes are pre-empted
  status       show what costs money now, and the runs with their attempts
  list         list the jobs of the workspace
  logs         print the logs of a job's processes: logs NAME --rank all
  cancel       cancel a run
  tensorboard  show the training curves of a run, live from blob storage
  upload       upload a folder to a container and register it as a data set:
               upload DIR --to prepared/imagenet
  download     download the results of a run: model, report, curves, logs
  register     register the model of a run as a versioned model
  teardown     delete the platform of a stack; --cluster NAME deletes only one cluster

NAME is the key of a run, which stands for its newest job, or the name of a job.

options of every command:
  --stack NAME     stack of the platform; Pulumi reads its outputs (default: dev)
  --outputs FILE   file to read the outputs from instead (`pulumi stack output platform --json`);
                   the environment variable JOBS_OUTPUTS can also name it
  --json           print one JSON document on stdout (logs: one per line); progress and notes go
                   to stderr

python -m jobs COMMAND --help lists the options of a command.

exit status: 0 success (a run that was followed has completed); 1 failure, or no such run; 2 invalid
options or job; 3 missing files; 4 stack outputs could not be read; 20 cancelled; 21 interrupted and
not submitted again; 22 Azure did not respond or refused the request, or a result could not be
checked; 23 the cluster check found a problem; 130 interrupted with Ctrl-C (jobs keep running in
Azure); 141 stdout was closed. A failed job returns the exit status of its program.
"""


@dataclass(frozen=True)
class Command:
    """Where a command is implemented, and which arguments it takes."""

    module: str
    options: str
    """Name of the dataclass of the command's options."""
    positional: str | None = None
    """Option that is set by the first positional argument."""
    program: bool = False
    """Whether options of the trainer may follow after `--`."""
    outputs: Literal["required", "optional", "made"] = "required"
    """Whether the command needs the outputs of a stack. optional: it also works on a stack that no
    longer has outputs; made: it deploys the stack."""


COMMANDS: Final = {
    "preview": Command("jobs.commands.deploy", "PreviewOptions", outputs="made"),
    "up": Command("jobs.commands.deploy", "UpOptions", outputs="made"),
    "preflight": Command(
        "jobs.commands.preflight", "PreflightOptions", program=True, outputs="optional"
    ),
    "submit": Command("jobs.commands.submit", "SubmitOptions", program=True),
    "prepare": Command("jobs.commands.prepare", "PrepareOptions", "what", program=True),
    "spec": Command("jobs.commands.spec", "SpecOptions", program=True),
    "follow": Command("jobs.commands.follow", "FollowOptions", "name"),
    "status": Command("jobs.commands.status", "StatusOptions"),
    "list": Command("jobs.commands.status", "ListOptions"),
    "logs": Command("jobs.commands.logs", "LogsOptions", "name"),
    "cancel": Command("jobs.commands.cancel", "CancelOptions", "name"),
    "tensorboard": Command("jobs.commands.tensorboard", "TensorboardOptions", "name"),
    "upload": Command("jobs.commands.upload", "UploadOptions", "folder"),
    "download": Command("jobs.commands.download", "DownloadOptions", "name"),
    "register": Command("jobs.commands.register", "RegisterOptions", "name"),
    "teardown": Command("jobs.commands.teardown", "TeardownOptions", outputs="optional"),
}


@dataclass(frozen=True)
class CommonOptions:
    """Options that every command accepts."""

    stack: str | None
    outputs: str | None
    as_json: bool
    given: tuple[str, ...] = ()
    """Arguments that select the platform (--stack, --outputs), as given."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. User errors are printed without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # Azure's libraries log warnings that our own errors express better, and warn about their
    # experimental classes.
    logging.getLogger("azure").setLevel(logging.ERROR)
    try:
        return _flushed(_run(args))
    except BrokenPipeError:
        # Discard what is still buffered, so that the interpreter also exits without an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _flushed(status: int) -> int:
    """Flush stdout now: a closed pipe cannot be handled while the interpreter exits."""
    sys.stdout.flush()
    return status


def _run(args: list[str]) -> int:
    if args[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if not args:
        print(USAGE, end="", file=sys.stderr)
        return ConfigError.exit_code
    if args[0] not in COMMANDS:
        near = difflib.get_close_matches(args[0], COMMANDS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        hint = "`python -m jobs --help` lists the commands"
        print(f"error: unknown command {args[0]!r}{meant}\n{hint}", file=sys.stderr)
        return ConfigError.exit_code
    name, command = args[0], COMMANDS[args[0]]
    own, program = _split_program(args[1:])
    if program and not command.program:
        raise UserError(f"{name}: this command accepts no trainer options after '--'")
    rest, common = common_options(own)
    PLATFORM.set(common.given)
    module = importlib.import_module(command.module)
    options = read_options(name, command, getattr(module, command.options), rest)
    more: dict[str, Any] = {"program": program} if command.program else {}
    if command.outputs == "made":
        return int(module.run(options, as_json=common.as_json, stack=common.stack))
    outputs = None
    try:
        outputs = read_outputs(REPOSITORY, common.stack, common.outputs)
    except NotDeployedError:
        if command.outputs == "required":
            raise
    if command.outputs == "optional":
        more["stack"] = common.stack
    return int(module.run(options, outputs, as_json=common.as_json, **more))


def read_options(name: str, command: Command, options: type, args: Sequence[str]) -> Any:
    """Read the options of a command, including its positional argument.

    Raises:
        ConfigError: An option is unknown or a value is invalid; lists all of them.
    """
    first, others = _first(options, args) if command.positional else (None, list(args))
    if first is not None:
        others = [f"--{command.positional}", first, *others]
    return parse(options(), name, others, _description(options), package="jobs")


def _first(options: type, args: Sequence[str]) -> tuple[str | None, list[str]]:
    """Split off the positional argument."""
    if args and not args[0].startswith("-"):
        return args[0], list(args[1:])
    leaves = list(fields.leaves(options))
    if any(get_origin(leaf.type) is tuple for leaf in leaves):
        # It cannot be distinguished from another value of an option that takes several.
        return None, list(args)
    positional, others = split_positional(args, [leaf.flag for leaf in leaves if leaf.type is bool])
    if len(positional) > 1:
        raise ConfigError([f"{positional[1]}: unexpected argument"])
    return (positional[0] if positional else None), others


def common_options(args: Sequence[str]) -> tuple[list[str], CommonOptions]:
    """Split the options that every command accepts from the command's own.

    Raises:
        ConfigError: An option has no value.
    """
    values: dict[str, str | None] = {"--stack": None, "--outputs": None}
    rest, as_json = [], False
    remaining = list(args)
    while remaining:
        arg = remaining.pop(0)
        flag, mark, value = arg.partition("=")
        if arg == "--json":
            as_json = True
        elif flag in values:
            if not mark:
                if not remaining or remaining[0].startswith("--"):
                    raise ConfigError([f"{flag}: needs a value"])
                value = remaining.pop(0)
            values[flag] = value
        else:
            rest.append(arg)
    outputs = values["--outputs"]
    given = tuple(part for flag, value in values.items() if value for part in (flag, value))
    if outputs is None and values["--stack"] is None:
        outputs = os.environ.get("JOBS_OUTPUTS")
    return rest, CommonOptions(values["--stack"], outputs, as_json, given)


def _split_program(args: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Split the command's options from the trainer's, which follow `--`."""
    if "--" not in args:
        return list(args), ()
    index = list(args).index("--")
    return list(args[:index]), tuple(args[index + 1 :])


def _description(options: type) -> str:
    return " ".join((options.__doc__ or "").split())
