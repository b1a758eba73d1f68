"""A stack on the simulator, and the commands of a person who works on it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from infra.outputs import PlatformOutputs, from_dict
from jobs.cli import COMMANDS
from rehearsal.machine_learning.run_history import ENDED
from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT, Deployment
from rehearsal.simulator import Simulator
from tests.rehearsal.support import training
from tests.rehearsal.support.engine import azure_resources, ran
from tests.rehearsal.support.waiting import SECONDS, until

OPTIONS = Options(
    program_folder=ROOT / ".venv-trainer" / "bin",
    max_processes_per_node=1,
    allocation_seconds=0.1,
    max_idle_seconds=2.0,
    sync_seconds=0.2,
    grace_seconds=3.0,
)
WORKSPACES = "Microsoft.MachineLearningServices/workspaces"
GROUPS = "Microsoft.Resources/resourceGroups"
QUICK = ("--poll-seconds", "0.3")
TINY = (*training.TINY, "--evaluation.every-epochs", "0")
"""Options of a run that takes seconds."""
_HEARS_CTRL_C = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""Processes that a shell starts in the background ignore Ctrl-C, and so do their children."""


class Command:
    """A command that was started, in a group of processes as a terminal makes one."""

    def __init__(self, arguments, folder, environment):
        self.arguments, self.status = arguments, None
        number = len(list(folder.glob("*.out")))
        self._out, self._err = (folder / f"{number}.{kind}" for kind in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _HEARS_CTRL_C, *arguments],
                cwd=environment["PWD"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    @property
    def words(self):
        """The command, and all that it has written."""
        return f"{' '.join(self.arguments)}\n{self.out}{self.err}"

    @property
    def ended(self):
        return self._process.poll() is not None

    def wait(self):
        """Its status at its end."""
        try:
            self.status = self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self.words}") from None
        return self.status

    def wait_for(self, condition):
        """Wait until a condition holds or the command has ended; whether the condition holds."""
        until(lambda: condition() or self.ended, lambda: f"it has not come to that: {self.words}")
        return condition()

    def wait_for_words(self, *texts):
        assert self.wait_for(lambda: all(text in self.words for text in texts)), self.words

    def interrupt(self):
        """Ctrl-C in its terminal: all of its group hears it."""
        self._signal(signal.SIGINT)

    def kill(self):
        """End it all at once; safe to repeat."""
        self._signal(signal.SIGKILL)
        self.status = self._process.wait()

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@dataclass(frozen=True)
class Cloud:
    """An Azure, and a stack that is to be deployed to it."""

    azure: Simulator
    deployment: Deployment
    folder: Path
    commands: contextlib.ExitStack
    variables: dict[str, str] = field(default_factory=dict)
    """Further environment variables of commands."""

    def start(self, verb, *arguments, repository=ROOT):
        """Begin `python -m jobs VERB --stack STACK ...`; a verb that reads a stack only if it is
        named is given none.
        """
        of_terminal = {"PWD": str(repository), "PYTHONUNBUFFERED": "1"}
        environment = {
            **self.deployment.command_environment,
            **self.variables,
            **of_terminal,
        }
        named = COMMANDS[verb].outputs == "named"
        stack = () if named else ("--stack", self.deployment.stack)
        command = Command(["-m", "jobs", verb, *stack, *arguments], self.folder, environment)
        self.commands.callback(command.kill)
        return command

    def jobs(self, verb, *arguments, status=0, repository=ROOT):
        """A verb of jobs from its start to its end, which has a status."""
        command = self.start(verb, *arguments, repository=repository)
        assert command.wait() == status, command.words
        return command

    def pulumi(self, *arguments):
        """What Pulumi writes for a command that succeeds."""
        return ran(self.deployment, *arguments)

    def state(self):
        """Resources of Azure that Pulumi knows."""
        return azure_resources(self.deployment)

    @property
    def outputs(self) -> PlatformOutputs:
        """Of the stack, as the jobs read them."""
        return from_dict(json.loads(self.pulumi("stack", "output", "platform", "--json")))

    @property
    def workspace(self):
        """Id of the stack's workspace."""
        (workspace,) = self.azure.resources.of_kind(WORKSPACES)
        return workspace["id"]

    @property
    def groups(self):
        """Names of all resource groups."""
        return [one["name"] for one in self.azure.resources.of_kind(GROUPS)]

    def resources(self, prefix=""):
        """Ids of all that Azure has, or of the children of a resource."""
        return {one["id"].lower() for one in self.azure.resources.below(prefix)}

    def job_names(self):
        """All jobs that were ever submitted."""
        return sorted(one["name"] for one in self.azure.resources.of_kind(f"{WORKSPACES}/jobs"))

    def status(self, job):
        """Status of a job, by its id; None if it is not there."""
        exists = self.azure.resources.get(job) is not None
        return self.azure.runs.get(job)["status"] if exists else None

    def changes(self):
        """Requests that could have changed something in Resource Manager."""
        return [
            f"{one.method} {one.path}"
            for one in self.azure.requests
            if one.method in {"PUT", "PATCH", "DELETE"} and one.path.startswith("/subscriptions/")
        ]

    def wait_until_ended(self, job):
        until(lambda: self.status(job) in ENDED)
        return self.status(job)


@contextlib.contextmanager
def cloud_in(folder, stack="dev", **options):
    """An Azure that holds nothing yet, and a stack with the repository's settings."""
    with (
        Simulator(folder / "azure", replace(OPTIONS, **options)) as azure,
        stack_in(azure, folder, stack) as cloud,
    ):
        yield cloud


@contextlib.contextmanager
def stack_in(azure, folder, stack="dev"):
    """A stack with the repository's settings, not yet deployed to an Azure."""
    outputs = folder / "outputs"
    outputs.mkdir()
    with contextlib.ExitStack() as opened:
        deployment = opened.enter_context(Deployment(azure, folder / "pulumi", stack))
        # Commands end before the services that they talk to.
        commands = opened.enter_context(contextlib.ExitStack())
        yield Cloud(azure, deployment, outputs, commands)


def copy_of_the_repository(folder):
    """A user's own copy of the files that `python -m jobs` works with."""
    for name in ("common", "infra", "jobs", "trainer", "environments", "locks"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for file in (*ROOT.glob("Pulumi*.yaml"), ROOT / "pyproject.toml"):
        shutil.copy(file, folder)
    return folder
