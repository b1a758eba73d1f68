"""The command line: `python -m jobs COMMAND`.

A command's module is imported only when the command runs: some need libraries that take seconds to
import.
"""

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any, Final, Literal

from common import commands
from common.arguments import parse
from common.errors import UserError
from jobs.console import PLATFORM
from jobs.errors import AccessError, NotDeployedError
from jobs.exit_status import BROKEN_PIPE
from jobs.pipelines import runner_policy
from jobs.pulumi.stack_outputs import read_outputs
from jobs.spec.from_options import REPOSITORY

USAGE = """\
usage: python -m jobs COMMAND [NAME] [options] [-- options of the trainer]

  preview      show what deploying the platform would change
  up           deploy the platform, or the changes to it
  drift        show which resources somebody has changed outside of Pulumi
  backend      set up a storage account for Pulumi's state, and identities for GitHub's workflows
  comment      write a preview as a comment on a pull request, as a step of a workflow
  preflight    check whether a run could start: sign-in, network, cluster, quota, image, data
  plan         show what a training would take on each choice of nodes, before any is rented:
               plan --preset imagenet-ndv2 --deadline 2h
  scaling      measure images/s by number of nodes with short jobs; `plan` then uses the points:
               scaling --nodes 1 2 4
  commission   run what has never met Azure, ascending by cost, and write a page of facts
  submit       run a training (or --kind smoke, benchmark, check) and follow it to its end:
               submit --preset imagenet-ndv2 --nodes 2 --data.asset imagenet:VERSION -- --epochs 90
  prepare      convert raw images into shards, as a job:
               prepare imagenet --raw ilsvrc2012 --prepared imagenet -- --train FILE ...
  spec         print the job as YAML for `az ml job create`, without submitting it
  follow       show the output of a run until it ends; --supervise submits the run again if its
               nodes are pre-empted
  supervise    submit all interrupted runs of the workspace again, and send notices of those that
               ended: supervise --once, from any machine
  status       show what costs money now, and the runs with their attempts
  list         list the jobs of the workspace
  cost         estimate what jobs have cost, by run, week or tag: cost --by tag:data
  compare      compare runs by configuration, curves, time and cost: compare RUN RUN
  logs         print the logs of a job's processes: logs NAME --rank all
  stacks       print where the ranks of a running training are, and what they wait for
  profile      record some steps of a running training, and download the profile
  debug        show how to get into the nodes of a job that was submitted with --debug
  cancel       cancel a run
  tensorboard  show the training curves of a run, live from blob storage
  upload       upload a folder to a container and register it as a data set:
               upload DIR --to prepared/imagenet
  download     download the results of a run: model, report, curves, logs
  register     register the model of a run as a versioned model
  deploy       let a registered model answer requests: deploy MODEL:VERSION --endpoint NAME
  score        ask an endpoint for the classes of images: score --endpoint NAME IMAGE...
  score-batch  write the classes of all images in a folder of storage to files, as a job:
               score-batch MODEL:VERSION --input raw/photos --output scores/photos --nodes 8
  traffic      promote a deployment of an endpoint, divide the requests, or roll back:
               traffic --endpoint NAME --to green
  endpoints    list the endpoints, and what they cost while idle
  undeploy     delete an endpoint, or one deployment of it
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
checked; 23 the cluster check found a problem; 24 the budget is used up; 25 a run was observed no
longer, so how it ends is unknown; 26 resources were changed outside of Pulumi; 130 interrupted
with Ctrl-C (jobs keep running in Azure); 141 stdout was closed. A failed job returns the exit
status of its program.
"""


@dataclass(frozen=True)
class Command:
    """Where a command is implemented, and which arguments it takes."""

    module: str
    options: str
    """Name of the dataclass of the command's options."""
    program: bool = False
    """Whether options of the trainer may follow after `--`."""
    outputs: Literal["required", "optional", "named", "made"] = "required"
    """Whether the command needs the outputs of a stack. optional: it also works on a stack that no
    longer has outputs; named: it reads them only if the command line names a stack; made: it
    works on the stack itself."""
    data: bool = False
    """Whether the command moves data, for which it must be inside the network of a private
    stack."""


COMMANDS: Final = {
    "preview": Command("jobs.commands.deploy", "PreviewOptions", outputs="made"),
    "up": Command("jobs.commands.deploy", "UpOptions", outputs="made"),
    "drift": Command("jobs.pipelines.drift", "DriftOptions", outputs="made"),
    "backend": Command("jobs.pipelines.backend", "BackendOptions", outputs="made"),
    "comment": Command("jobs.pipelines.comment", "CommentOptions", outputs="made"),
    "preflight": Command(
        "jobs.commands.preflight", "PreflightOptions", program=True, outputs="optional"
    ),
    "plan": Command("jobs.planning.command", "PlanOptions", program=True, outputs="named"),
    "scaling": Command("jobs.scaling.command", "ScalingOptions", program=True, data=True),
    "commission": Command("jobs.commission.command", "CommissionOptions", program=True, data=True),
    "submit": Command("jobs.commands.submit", "SubmitOptions", program=True, data=True),
    "prepare": Command("jobs.processing.prepare", "PrepareOptions", program=True, data=True),
    "spec": Command("jobs.commands.spec", "SpecOptions", program=True),
    "follow": Command("jobs.commands.follow", "FollowOptions"),
    "supervise": Command("jobs.commands.runs.supervise", "SuperviseOptions"),
    "status": Command("jobs.commands.status", "StatusOptions"),
    "list": Command("jobs.commands.status", "ListOptions"),
    "cost": Command("jobs.commands.runs.cost", "CostOptions"),
    "compare": Command("jobs.commands.runs.compare", "CompareOptions", data=True),
    "logs": Command("jobs.commands.logs", "LogsOptions"),
    "stacks": Command("jobs.inspection.stacks", "StacksOptions", data=True),
    "profile": Command("jobs.inspection.profile", "ProfileOptions", data=True),
    "debug": Command("jobs.inspection.debug", "DebugOptions"),
    "cancel": Command("jobs.commands.cancel", "CancelOptions"),
    "tensorboard": Command("jobs.commands.tensorboard", "TensorboardOptions", data=True),
    "upload": Command("jobs.commands.upload", "UploadOptions", data=True),
    "download": Command("jobs.commands.download", "DownloadOptions", data=True),
    "register": Command("jobs.commands.register", "RegisterOptions", data=True),
    "deploy": Command("jobs.serving.deploy", "DeployOptions", data=True),
    "score": Command("jobs.serving.score", "ScoreOptions"),
    "score-batch": Command(
        "jobs.processing.score_batch", "ScoreBatchOptions", program=True, data=True
    ),
    "traffic": Command("jobs.serving.traffic", "TrafficOptions"),
    "endpoints": Command("jobs.serving.listing", "EndpointsOptions"),
    "undeploy": Command("jobs.serving.undeploy", "UndeployOptions"),
    "teardown": Command("jobs.commands.teardown", "TeardownOptions", outputs="optional"),
}


@dataclass(frozen=True)
class PlatformOptions:
    """Options that every command has after its own."""

    stack: str | None = None
    """Stack of the platform, whose outputs Pulumi reads; None is dev."""

    outputs: str | None = None
    """File to read the outputs from instead (`pulumi stack output platform --json`); the
    environment variable JOBS_OUTPUTS can also name it."""

    json: bool = False
    """Print one JSON document on stdout (logs: one per line); progress and notes go to stderr."""

    @property
    def given(self) -> tuple[str, ...]:
        """Arguments that select the platform."""
        values = {"--stack": self.stack, "--outputs": self.outputs}
        return tuple(part for flag, value in values.items() if value for part in (flag, value))

    @property
    def file(self) -> str | None:
        """File of the outputs, or None to ask Pulumi."""
        if self.outputs is None and self.stack is None:
            return os.environ.get("JOBS_OUTPUTS")
        return self.outputs


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. User errors are printed without a traceback."""
    # Azure's libraries log warnings that our own errors express better, and warn about their
    # experimental classes.
    logging.getLogger("azure").setLevel(logging.ERROR)
    try:
        status = commands.run("jobs", COMMANDS, USAGE, _run, argv)
        # Now, as a closed pipe cannot be handled while the interpreter exits.
        sys.stdout.flush()
    except BrokenPipeError:
        # Discard what is still buffered, so that the interpreter also exits without an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except commands.REPORTED as error:
        return commands.report(error)
    return status


def read_options(name: str, args: Sequence[str]) -> Any:
    """Parse the options of a command into an instance of both its dataclass and `PlatformOptions`.

    Raises:
        ConfigError: An option is unknown or a value is invalid; lists all of them.
    """
    command = COMMANDS[name]
    own = getattr(importlib.import_module(command.module), command.options)
    both = make_dataclass(
        own.__name__,
        (),
        bases=(PlatformOptions, own),
        namespace={"__doc__": own.__doc__},
        frozen=True,
    )
    return parse(both(), name, args, package="jobs")


def _run(name: str, args: list[str]) -> int:
    command = COMMANDS[name]
    end = args.index("--") if "--" in args else len(args)
    program = tuple(args[end + 1 :])
    if program and not command.program:
        raise UserError(f"{name}: this command accepts no trainer options after '--'")
    options = read_options(name, args[:end])
    token = PLATFORM.set(options.given)
    try:
        return _run_on_platform(name, command, options, program)
    finally:
        PLATFORM.reset(token)


def _run_on_platform(name: str, command: Command, options: Any, program: tuple[str, ...]) -> int:
    run = importlib.import_module(command.module).run
    if command.outputs == "made":
        return int(run(options, as_json=options.json, stack=options.stack))
    outputs = None
    try:
        if command.outputs != "named" or options.given:
            outputs = read_outputs(REPOSITORY, options.stack, options.file)
    except NotDeployedError:
        if command.outputs == "required":
            raise
    if command.data and outputs is not None:
        problem = runner_policy.refusal(name, outputs.access, os.environ)
        if problem is not None:
            raise AccessError(problem)
    more: dict[str, Any] = {"program": program} if command.program else {}
    if command.outputs == "optional":
        more["stack"] = options.stack
    return int(run(options, outputs, as_json=options.json, **more))
