"""The command line: `python -m jobs COMMAND`, a table of commands.

A command's module is imported only when the command runs: some need libraries that take seconds to
import.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, Final

from common.annotations import Pattern
from common.arguments import parse
from common.errors import ConfigError
from common.program import Command, Program
from infra.outputs import PlatformOutputs
from jobs import gone
from jobs.console import PLATFORM
from jobs.errors import AccessError, NotDeployedError, UnreadableStateError
from jobs.leaf import Checked, JobCommand
from jobs.leaves import LEAVES
from jobs.pulumi.stack_outputs import read_outputs
from jobs.runner_policy import refusal
from jobs.spec.from_options import REPOSITORY, trainer_options

_NOTES: Final = """\
NAME is the key of a run, which stands for its newest job, or the name of a job.

options of every command:
  --stack NAME     stack of the platform; Pulumi reads its outputs (default: dev)
  --outputs FILE   file to read the outputs from instead (`pulumi stack output platform --json`);
                   the environment variable JOBS_OUTPUTS can also name it, for its own stack
  --json           print one JSON document on stdout (logs: one per line); progress and notes go
                   to stderr

python -m jobs COMMAND --help lists the options of a command.

exit status: 0 success (a run that was followed has completed); 1 failure, or no such run; 2 invalid
options or job; 3 missing files; 4 stack outputs could not be read; 20 cancelled; 21 interrupted and
not submitted again; 22 Azure did not respond or refused the request, or a result could not be
checked; 23 the cluster check found a problem; 24 the budget is used up; 25 the end of a run
is unknown, because it is no longer observed; 26 resources were changed outside of Pulumi; 130
interrupted with Ctrl-C (jobs keep running in Azure); 141 stdout was closed. A failed job returns
the exit status of its program.
"""

GROUPS: Final = ("platform", "train", "data", "look at runs", "use a model", "estimate and measure")

_TRUNK: Final = (
    JobCommand(
        "preview",
        "platform",
        "show what deploying the platform would change",
        "jobs.commands.up:run",
        outputs="made",
    ),
    JobCommand(
        "up",
        "platform",
        "deploy the platform, or the changes to it",
        "jobs.commands.up:run",
        outputs="made",
    ),
    JobCommand(
        "preflight",
        "platform",
        "check whether a run could start: sign-in, network, cluster, quota, image, data",
        "jobs.commands.preflight:run",
        program=True,
        outputs="optional",
    ),
    JobCommand(
        "teardown",
        "platform",
        "delete the platform of a stack; --cluster NAME deletes only one cluster",
        "jobs.commands.teardown:run",
        outputs="optional",
    ),
    JobCommand(
        "submit",
        "train",
        "start a run (or --kind smoke, benchmark, check) and follow it to its end: submit "
        "--preset imagenet-ndv2 --nodes 2 --data.asset imagenet:VERSION -- --epochs 90",
        "jobs.commands.submit:run",
        program=True,
        data=True,
    ),
    JobCommand(
        "spec",
        "train",
        "print the job as YAML for `az ml job create`, without submitting it",
        "jobs.commands.spec:run",
        program=True,
    ),
    JobCommand(
        "supervise",
        "train",
        "submit all interrupted runs of the workspace again, and send notices of those that "
        "ended: supervise --once, from any machine",
        "jobs.commands.runs.supervise:run",
    ),
    JobCommand(
        "cancel",
        "train",
        "cancel a run",
        "jobs.commands.cancel:run",
    ),
    JobCommand(
        "upload",
        "data",
        "upload a folder to a container and register it as a data set: upload DIR --to "
        "prepared/imagenet",
        "jobs.commands.upload:run",
        data=True,
    ),
    JobCommand(
        "prepare",
        "data",
        "convert raw images into shards, as a job: prepare imagenet --raw ilsvrc2012 "
        "--prepared imagenet -- --train FILE ...",
        "jobs.commands.prepare:run",
        program=True,
        data=True,
    ),
    JobCommand(
        "status",
        "look at runs",
        "show what costs money now, and the runs with their attempts; --jobs lists jobs instead",
        "jobs.commands.status:run",
        former={"list": ("--jobs", "True"), "endpoints": ()},
    ),
    JobCommand(
        "follow",
        "look at runs",
        "show the output of a run until it ends; --supervise submits the run again if its "
        "nodes are pre-empted",
        "jobs.commands.follow:run",
    ),
    JobCommand(
        "logs",
        "look at runs",
        "print the logs of a job's processes: logs NAME --rank all",
        "jobs.commands.logs:run",
    ),
    JobCommand(
        "cost",
        "look at runs",
        "estimate what jobs have cost, by run, week or tag: cost --by tag:data",
        "jobs.commands.runs.cost:run",
    ),
    JobCommand(
        "compare",
        "look at runs",
        "compare runs by configuration, curves, time and cost: compare RUN RUN",
        "jobs.commands.runs.compare:run",
        data=True,
    ),
    JobCommand(
        "tensorboard",
        "look at runs",
        "show the training curves of a run, live from blob storage",
        "jobs.commands.tensorboard:run",
        data=True,
    ),
    JobCommand(
        "download",
        "use a model",
        "download the results of a run: model, report, curves, logs",
        "jobs.commands.download:run",
        data=True,
    ),
    JobCommand(
        "register",
        "use a model",
        "register the model of a run as a versioned model",
        "jobs.commands.register:run",
        data=True,
    ),
)

COMMANDS: Final[Mapping[str, JobCommand]] = {
    command.name: command
    for command in (*_TRUNK, *(command for leaf in LEAVES for command in leaf.commands))
}

PROGRAM: Final = Program(
    "jobs",
    tuple(COMMANDS.values()),
    GROUPS,
    "COMMAND [NAME] [options] [-- options of the trainer]",
    _NOTES,
    environment=".venv",
    setup="setup-platform",
    gone=gone.COMMANDS,
)


_GIVEN: Final = Pattern(r"(?s).*\S.*", "a name, or omitted")
"""A variable of a shell that is not set may not choose another platform."""


@dataclass(frozen=True)
class PlatformOptions:
    """Options that every command has after its own."""

    stack: Annotated[str | None, _GIVEN] = None
    """Stack of the platform, whose outputs Pulumi reads. Without it, commands use dev, and `plan`
    uses no stack."""

    outputs: Annotated[str | None, _GIVEN] = None
    """File to read the outputs from instead (`pulumi stack output platform --json`); the
    environment variable JOBS_OUTPUTS can also name it. Pulumi is asked about another stack than
    that of the variable's file."""

    json: bool = False
    """Print one JSON document on stdout (logs: one per line); progress and notes go to stderr."""

    @property
    def given(self) -> tuple[str, ...]:
        """Arguments that select the platform."""
        values = {"--stack": self.stack, "--outputs": self.outputs}
        return tuple(part for flag, value in values.items() if value for part in (flag, value))

    def read(self) -> PlatformOutputs:
        """Read the outputs: from a file if one is named, else from Pulumi's state.

        The file that JOBS_OUTPUTS names is that of one stack, so Pulumi is asked about another one.

        Raises:
            NotDeployedError: The stack has no outputs.
            PlatformReadError: The outputs could not be read.
        """
        file = os.environ.get("JOBS_OUTPUTS")
        if self.outputs is None and file:
            outputs = read_outputs(REPOSITORY, None, file)
            if self.stack is None or self.stack.rpartition("/")[2] == outputs.stack:
                return outputs
        return read_outputs(REPOSITORY, self.stack, self.outputs)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. User errors are printed without a traceback."""
    quieten()
    return PROGRAM.main(argv, _run)


def quieten() -> None:
    """Keep Azure's libraries from logging what our own errors express better."""
    # It also warns about its experimental classes.
    logging.getLogger("azure").setLevel(logging.ERROR)
    # The sign-in logs a traceback for a response that is not JSON.
    logging.getLogger("msal").setLevel(logging.CRITICAL)


def read_options(name: str, args: Sequence[str]) -> Any:
    """Parse the options of a command into an instance of both its dataclass and `PlatformOptions`.

    Raises:
        ConfigError: An option is unknown or a value is invalid; lists all of them.
    """
    own = COMMANDS[name].load_options()
    both = make_dataclass(
        own.__name__,
        (),
        bases=(PlatformOptions, own),
        namespace={"__doc__": own.__doc__},
        frozen=True,
    )
    elsewhere = trainer_options() if COMMANDS[name].program else {}
    return parse(both(), name, args, program="python -m jobs", elsewhere=elsewhere)


def _run(named: Command, args: list[str]) -> int:
    command = COMMANDS[named.name]
    end = args.index("--") if "--" in args else len(args)
    program = tuple(args[end + 1 :])
    if program and not command.program:
        raise ConfigError([f"{command.name}: this command accepts no trainer options after '--'"])
    options = read_options(command.name, args[:end])
    token = PLATFORM.set(options.given)
    try:
        if isinstance(options, Checked):
            options.check(program)
        return _run_on_platform(command, options, program)
    finally:
        PLATFORM.reset(token)


def _run_on_platform(command: JobCommand, options: Any, program: tuple[str, ...]) -> int:
    run = command.load_run()
    if command.outputs == "made":
        return int(run(options, as_json=options.json, stack=options.stack))
    outputs = None
    try:
        if command.outputs != "named" or options.given:
            outputs = options.read()
    except (NotDeployedError, UnreadableStateError):
        if command.outputs == "required":
            raise
    if command.data and outputs is not None:
        problem = refusal(command.name, outputs.access, os.environ)
        if problem is not None:
            raise AccessError(problem)
    more: dict[str, Any] = {"program": program} if command.program else {}
    if command.outputs == "optional":
        more["stack"] = options.stack
    return int(run(options, outputs, as_json=options.json, **more))
