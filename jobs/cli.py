"""The command line: `python -m jobs COMMAND`.

A command's module is imported when it is asked for: some of them need libraries that take seconds.
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

  preview      what deploying the platform would change
  up           deploy the platform, or what has changed of it
  preflight    whether a run could start: sign-in, network, cluster, quota, image, data
  submit       run a training (or --kind smoke, benchmark, check) and follow it to its end:
               submit --preset imagenet-ndv2 --nodes 4 --data.asset imagenet:VERSION -- --epochs 90
  prepare      raw images into shards, as a job:
               prepare imagenet --raw ilsvrc2012 --prepared imagenet -- --train FILE ...
  spec         print the job as YAML for `az ml job create`, and submit nothing
  follow       show what a run says until it has ended; --supervise submits it again when its nodes
               were pre-empted
  status       what costs money now, and the runs with their attempts
  list         the jobs of the workspace
  logs         what the processes of a job wrote: logs NAME --rank all
  cancel       end a run
  tensorboard  curves of a run, live from blob storage
  upload       a folder into a container, registered as a data set:
               upload DIR --to prepared/imagenet
  download     what a run leaves: model, report, curves, logs
  register     the model of a run as a versioned model
  teardown     delete the platform of a stack; --cluster NAME: only one cluster

NAME is the key of a run, which stands for its newest job, or the name of a job.

for every command:
  --stack NAME     whose platform; its outputs are read by pulumi (default: dev)
  --outputs FILE   a file of these outputs instead (`pulumi stack output platform --json`); the
                   variable JOBS_OUTPUTS names one as well
  --json           one JSON document on stdout (of logs: one a line); progress and notes go to
                   stderr

python -m jobs COMMAND --help lists the options of a command.

exit status: 0 done, and what was followed has trained to its end; 1 failed, or there is no such
run; 2 a job that could not run as asked; 3 files missing; 4 outputs of the stack not readable;
20 cancelled; 21 interrupted and not submitted again; 22 Azure could not be asked, or refused, or a
result could not be looked at; 23 a check found something poor; 130 interrupted here (what Azure
runs goes on); 141 nobody reads what is printed. A job that has failed gives its program's own
status.
"""


@dataclass(frozen=True)
class Command:
    """Where a command is, and what it is given."""

    module: str
    options: str
    """Name of its dataclass of options."""
    positional: str | None = None
    """The option that its first argument gives."""
    program: bool = False
    """Whether options of the trainer may follow after `--`."""
    outputs: Literal["required", "optional", "made"] = "required"
    """Whether it needs what a stack exports; optional: it also deals with a stack that exports
    nothing any more; made: it deploys the stack."""


COMMANDS: Final = {
    "preview": Command("jobs.commands.deploy", "PreviewOptions", outputs="made"),
    "up": Command("jobs.commands.deploy", "UpOptions", outputs="made"),
    "preflight": Command("jobs.commands.preflight", "PreflightOptions", program=True),
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
    """What every command can be told."""

    stack: str | None
    outputs: str | None
    as_json: bool
    given: tuple[str, ...] = ()
    """What names the platform, as it was given."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; errors of the user's come without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # Azure's libraries warn of what our errors say better, and of their own experimental classes.
    logging.getLogger("azure").setLevel(logging.ERROR)
    try:
        return _flushed(_run(args))
    except BrokenPipeError:
        # What is still to be written goes nowhere, so that the interpreter's end is quiet as well.
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
    """Write now and not at the interpreter's end, where a closed pipe cannot be dealt with."""
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
        raise UserError(f"{name}: takes no options of the trainer after '--'")
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
    """The options of a command, its first argument among them.

    Raises:
        ConfigError: with every unknown option and unreadable value.
    """
    first, others = _first(options, args) if command.positional else (None, list(args))
    if first is not None:
        others = [f"--{command.positional}", first, *others]
    return parse(options(), name, others, _description(options), package="jobs")


def _first(options: type, args: Sequence[str]) -> tuple[str | None, list[str]]:
    """The argument that stands for itself, and the others."""
    if args and not args[0].startswith("-"):
        return args[0], list(args[1:])
    leaves = list(fields.leaves(options))
    if any(get_origin(leaf.type) is tuple for leaf in leaves):
        # It cannot be told from one more value of an option that takes several.
        return None, list(args)
    positional, others = split_positional(args, [leaf.flag for leaf in leaves if leaf.type is bool])
    if len(positional) > 1:
        raise ConfigError([f"{positional[1]}: there is no place for this argument"])
    return (positional[0] if positional else None), others


def common_options(args: Sequence[str]) -> tuple[list[str], CommonOptions]:
    """What every command can be told, apart from its own options.

    Raises:
        ConfigError: an option without its value.
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
    """Own options, and those after `--`."""
    if "--" not in args:
        return list(args), ()
    index = list(args).index("--")
    return list(args[:index]), tuple(args[index + 1 :])


def _description(options: type) -> str:
    return " ".join((options.__doc__ or "").split())
