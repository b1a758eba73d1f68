"""A stack on loopback, and the commands of a person who works on it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from infra.outputs import PlatformOutputs, from_dict
from rehearsal.loopback import Loopback
from rehearsal.machine_learning.run_history import ENDED
from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT, Deployment

SECONDS = 300.0
"""Until a command has ended, or something has come about: machines are busy."""
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
TINY = (
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--data.streams", "4", "--data.shuffle-window", "50", "--evaluation.every-epochs", "0"),
    *("--log.report", "False", "--export", "False", "--restarts", "0"),
)
"""Options of a training that takes seconds."""
_HEARS_CTRL_C = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""What a shell starts in the background ignores Ctrl-C, and so does what that starts."""


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
        """All that it has said."""
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
        """Until something is so while it runs; whether it came to that before its end."""
        until = time.monotonic() + SECONDS
        while not condition():
            if self.ended:
                return condition()
            assert time.monotonic() < until, f"it has not come to that: {self.words}"
            time.sleep(0.02)
        return True

    def wait_for_words(self, *texts):
        assert self.wait_for(lambda: all(text in self.words for text in texts)), self.words

    def interrupt(self):
        """Ctrl-C in its terminal: all of its group hears it."""
        self._signal(signal.SIGINT)

    def kill(self):
        """End it all at once; safe to repeat."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


@dataclass(frozen=True)
class Cloud:
    """An Azure, and a stack that is to be deployed to it."""

    azure: Loopback
    deployment: Deployment
    folder: Path
    commands: contextlib.ExitStack

    def start(self, verb, *arguments, repository=ROOT):
        """Begin `python -m jobs VERB --stack STACK ...`."""
        of_terminal = {"PWD": str(repository), "PYTHONUNBUFFERED": "1"}
        environment = {**self.deployment.command_environment, **of_terminal}
        stack = ("--stack", self.deployment.stack)
        command = Command(["-m", "jobs", verb, *stack, *arguments], self.folder, environment)
        self.commands.callback(command.kill)
        return command

    def jobs(self, verb, *arguments, status=0, repository=ROOT):
        """A verb of jobs from its start to its end, which has a status."""
        command = self.start(verb, *arguments, repository=repository)
        assert command.wait() == status, command.words
        return command

    def pulumi(self, *arguments):
        """What Pulumi says to a command that succeeds."""
        ended = self.deployment.run(*arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def state(self):
        """Resources of Azure that Pulumi knows."""
        found = json.loads(self.pulumi("stack", "export"))["deployment"].get("resources", [])
        return [one for one in found if one["type"].startswith("azure-native:")]

    @property
    def outputs(self) -> PlatformOutputs:
        """Of the stack, as the jobs read them."""
        return from_dict(json.loads(self.pulumi("stack", "output", "platform", "--json")))

    @property
    def workspace(self):
        """Id of the stack's workspace."""
        (found,) = self.azure.resources.of_kind(WORKSPACES)
        return found["id"]

    @property
    def groups(self):
        """Names of all resource groups."""
        return [one["name"] for one in self.azure.resources.of_kind(GROUPS)]

    def resources(self, prefix=""):
        """Ids of all that Azure has, or of what is below something."""
        return {one["id"].lower() for one in self.azure.resources.below(prefix)}

    def job_names(self):
        """All jobs that were ever submitted."""
        return sorted(one["name"] for one in self.azure.resources.of_kind(f"{WORKSPACES}/jobs"))

    def status(self, job):
        """Of a job, by its id; none if it is not there."""
        found = self.azure.resources.get(job)
        return self.azure.runs.get(job)["status"] if found else None

    def changes(self):
        """Requests that could have changed something in Resource Manager."""
        return [
            f"{one.method} {one.path}"
            for one in self.azure.requests
            if one.method in {"PUT", "PATCH", "DELETE"} and one.path.startswith("/subscriptions/")
        ]

    def wait_until_ended(self, job):
        wait_for(lambda: self.status(job) in ENDED)
        return self.status(job)


def wait_for(condition, seconds=SECONDS):
    """Until something is so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it has not come to that"
        time.sleep(0.02)


@contextlib.contextmanager
def cloud_in(folder, stack="dev", **options):
    """An Azure that holds nothing yet, and a stack with the repository's settings."""
    said = folder / "said"
    said.mkdir()
    with contextlib.ExitStack() as opened:
        azure = opened.enter_context(Loopback(folder / "azure", replace(OPTIONS, **options)))
        deployment = opened.enter_context(Deployment(azure, folder / "pulumi", stack))
        # Commands end before what they talk to.
        commands = opened.enter_context(contextlib.ExitStack())
        yield Cloud(azure, deployment, said, commands)


def copy_of_the_repository(folder):
    """Somebody's own copy of what `python -m jobs` works with."""
    for name in ("infra", "jobs", "trainer", "environments", "locks"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for file in (*ROOT.glob("Pulumi*.yaml"), ROOT / "pyproject.toml"):
        shutil.copy(file, folder)
    return folder
