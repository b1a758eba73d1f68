"""The command line: `python -m jobs VERB`.

A verb's module is imported when it is asked for: some of them need libraries that take seconds.
"""

import difflib
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, get_origin

from common import fields
from common.arguments import parse, split_positional
from common.errors import ConfigError, UserError
from jobs.console import PLATFORM
from jobs.errors import NotDeployedError
from jobs.pulumi.stack_outputs import read_outputs
from jobs.spec.from_options import REPOSITORY

USAGE = """\
usage: python -m jobs VERB [NAME] [options] [-- options of the trainer]

  preview      what deploying the platform would change
  up           deploy the platform, or what has changed of it
  preflight    whether a run could start: sign-in, network, cluster, quota, image, data
  submit       run a training (or --kind smoke, benchmark, check) and follow it to its end:
               submit --preset imagenet-ndv2 --nodes 4 --data.asset imagenet:VERSION -- --epochs 90
  prepare      raw images into shards, as a job:
               prepare imagenet --raw ilsvrc2012 --prepared imagenet -- --train FILE ...
  spec         print the job as YAML for `az ml job create`, and submit nothing
  follow       show what a run says until it has ended; --supervise submits it again when its nodes
               were taken away
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

for every verb:
  --stack NAME     whose platform; its outputs are read by pulumi (default: dev)
  --outputs FILE   a file of these outputs instead (`pulumi stack output platform --json`); the
                   variable JOBS_OUTPUTS names one as well
  --json           one JSON document on stdout (of logs: one a line); progress and notes go to
                   stderr

python -m jobs VERB --help lists the options of a verb.

exit status: 0 done, and what was followed has trained to its end; 1 failed, or there is no such
run; 2 a job that could not run as asked; 3 files missing; 4 outputs of the stack not readable;
20 cancelled; 21 interrupted and not submitted again; 22 Azure could not be asked, or refused, or a
result could not be looked at; 23 a check found something poor; 130 interrupted here (what Azure
runs goes on); 141 nobody reads what is printed. A job that has failed gives its program's own
status.
"""


@dataclass(frozen=True)
class Verb:
    """Where a verb is."""

    module: str
    options: str
    """Name of its dataclass of options."""
    positional: str | None = None
    """The option that its first argument gives."""
    program: bool = False
    """Whether options of the trainer may follow after `--`."""
    half_gone: bool = False
    """Whether it deals with a stack that exports nothing any more."""
    deploys: bool = False
    """Whether it makes what a stack exports."""


UNREAD: Final = 141
"""As a shell tells of a program that a closed pipe has ended."""

VERBS: Final = {
    "preview": Verb("jobs.commands.deploy", "PreviewOptions", deploys=True),
    "up": Verb("jobs.commands.deploy", "UpOptions", deploys=True),
    "preflight": Verb("jobs.commands.preflight", "PreflightOptions", program=True),
    "submit": Verb("jobs.commands.submit", "SubmitOptions", program=True),
    "prepare": Verb("jobs.commands.prepare", "PrepareOptions", "what", program=True),
    "spec": Verb("jobs.commands.spec", "SpecOptions", program=True),
    "follow": Verb("jobs.commands.follow", "FollowOptions", "name"),
    "status": Verb("jobs.commands.status", "StatusOptions"),
    "list": Verb("jobs.commands.list", "ListOptions"),
    "logs": Verb("jobs.commands.logs", "LogsOptions", "name"),
    "cancel": Verb("jobs.commands.cancel", "CancelOptions", "name"),
    "tensorboard": Verb("jobs.commands.tensorboard", "TensorboardOptions", "name"),
    "upload": Verb("jobs.commands.upload", "UploadOptions", "folder"),
    "download": Verb("jobs.commands.download", "DownloadOptions", "name"),
    "register": Verb("jobs.commands.register", "RegisterOptions", "name"),
    "teardown": Verb("jobs.commands.teardown", "TeardownOptions", half_gone=True),
}


@dataclass(frozen=True)
class Common:
    """What every verb can be told."""

    stack: str | None
    outputs: str | None
    as_json: bool
    given: tuple[str, ...] = ()
    """What names the platform, as it was given."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit status; errors of the user's come without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # Azure's libraries warn of what our errors say better, and of their own experimental classes.
    logging.getLogger("azure").setLevel(logging.ERROR)
    try:
        return _flushed(_run(args))
    except BrokenPipeError:
        # What is still to be written goes nowhere, so that the interpreter's end is quiet as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


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
    if args[0] not in VERBS:
        near = difflib.get_close_matches(args[0], VERBS, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        help_ = "`python -m jobs --help` lists the verbs"
        print(f"error: {args[0]!r} is no verb{meant}\n{help_}", file=sys.stderr)
        return ConfigError.exit_code
    name, verb = args[0], VERBS[args[0]]
    own, program = _divided(args[1:])
    if program and not verb.program:
        raise UserError(f"{name}: takes no options of the trainer after '--'")
    rest, common = common_options(own)
    PLATFORM.set(common.given)
    module = importlib.import_module(verb.module)
    options = read_options(name, verb, getattr(module, verb.options), rest)
    more: dict[str, Any] = {"program": program} if verb.program else {}
    if verb.deploys:
        return int(module.run(options, as_json=common.as_json, stack=common.stack))
    outputs = None
    try:
        outputs = read_outputs(REPOSITORY, common.stack, common.outputs)
    except NotDeployedError:
        if not verb.half_gone:
            raise
    if verb.half_gone:
        more["stack"] = common.stack
    return int(module.run(options, outputs, as_json=common.as_json, **more))


def read_options(name: str, verb: Verb, options: type, args: Sequence[str]) -> Any:
    """The options of a verb, its first argument among them.

    Raises:
        ConfigError: with every unknown option and unreadable value.
    """
    given, others = _first(options, args) if verb.positional else (None, list(args))
    if given is not None:
        others = [f"--{verb.positional}", given, *others]
    return parse(options(), name, others, _description(options), package="jobs")


def _first(options: type, args: Sequence[str]) -> tuple[str | None, list[str]]:
    """The argument that stands for itself, and the others."""
    if args and not args[0].startswith("-"):
        return args[0], list(args[1:])
    leaves = list(fields.leaves(options))
    if any(get_origin(leaf.type) is tuple for leaf in leaves):
        # It cannot be told from one more value of an option that takes several.
        return None, list(args)
    given, others = split_positional(args, [leaf.flag for leaf in leaves if leaf.type is bool])
    if len(given) > 1:
        raise ConfigError([f"{given[1]}: there is no place for this argument"])
    return (given[0] if given else None), others


def common_options(args: Sequence[str]) -> tuple[list[str], Common]:
    """What every verb can be told, apart from its own options.

    Raises:
        ConfigError: an option without its value.
    """
    found: dict[str, str | None] = {"--stack": None, "--outputs": None}
    rest, as_json = [], False
    remaining = list(args)
    while remaining:
        arg = remaining.pop(0)
        flag, mark, value = arg.partition("=")
        if arg == "--json":
            as_json = True
        elif flag in found:
            if not mark:
                if not remaining or remaining[0].startswith("--"):
                    raise ConfigError([f"{flag}: needs a value"])
                value = remaining.pop(0)
            found[flag] = value
        else:
            rest.append(arg)
    outputs = found["--outputs"]
    given = tuple(part for flag, value in found.items() if value for part in (flag, value))
    if outputs is None and found["--stack"] is None:
        outputs = os.environ.get("JOBS_OUTPUTS")
    return rest, Common(found["--stack"], outputs, as_json, given)


def _divided(args: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Own options, and those after `--`."""
    if "--" not in args:
        return list(args), ()
    place = list(args).index("--")
    return list(args[:place]), tuple(args[place + 1 :])


def _description(options: type) -> str:
    return " ".join((options.__doc__ or "").split())
