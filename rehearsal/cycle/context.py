"""The state that the steps of a cycle share, and their checks of results."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from common.waiting import wait_until
from rehearsal.cycle.commands import CommandRunner
from rehearsal.cycle.webhook import Webhook
from rehearsal.errors import RehearsalError
from rehearsal.page.record import Attempt
from rehearsal.pulumi.deployment import ROOT, Deployment
from rehearsal.simulator import Simulator

TRAINER: Final = ROOT / ".venv-trainer" / "bin" / "python"

Findings: TypeAlias = Sequence[str]
"""Results of a step, in short lines."""


@dataclass
class Facts:
    """Results of earlier steps that later steps need."""

    declared: int = 0
    """Number of resources in the stack."""
    outputs: dict[str, Any] = field(default_factory=dict)
    data_set: str = ""
    """Uploaded data set as NAME:VERSION."""
    accuracy: float = 0.0
    """Top-1 accuracy that the training reported, from 0 to 1."""
    examples: int = 0
    attempts: tuple[Attempt, ...] = ()
    """Attempts of the training."""


class CycleContext:
    """A simulator with a stack, and the commands that work on it.

    Args:
        azure: The simulator.
        stack: Stack that is deployed to it.
        folder: Folder for all output.
        show: Prints a line of a command's output.
        webhook: Receives the notices of all commands.
    """

    def __init__(
        self,
        azure: Simulator,
        stack: Deployment,
        folder: Path,
        show: Callable[[str], None],
        webhook: Webhook,
    ) -> None:
        self.azure, self.stack, self.folder = azure, stack, folder
        self.facts, self.webhook = Facts(), webhook
        self._show = show

        def environment() -> dict[str, str]:
            return {**stack.command_environment, "JOBS_WEBHOOK": webhook.address}

        self.commands = CommandRunner(folder / "logs", ROOT, environment, azure.end_commands)

    def jobs(self, verb: str, *arguments: str, live: bool = False) -> None:
        """Run `python -m jobs VERB`; `live` prints its output as it comes."""
        command = [sys.executable, "-m", "jobs", verb, *arguments]
        at = command.index("--") if "--" in command else len(command)
        command[at:at] = ["--stack", self.stack.stack]
        self.commands.run(command, on_line=self._show if live else None)

    def jobs_json(self, verb: str, *arguments: str, status: int = 0) -> Any:
        """Run `python -m jobs VERB --json` and return its answer."""
        command = [sys.executable, "-m", "jobs", verb, *arguments, "--json"]
        return self._json([*command, "--stack", self.stack.stack], status)

    def pulumi(self, *arguments: str) -> None:
        """Run a Pulumi command."""
        self.commands.run(self._pulumi(arguments))

    def pulumi_json(self, *arguments: str) -> Any:
        """Run a Pulumi command that answers with JSON, and return its answer."""
        return self._json(self._pulumi(arguments))

    def _pulumi(self, arguments: Sequence[str]) -> list[str]:
        command = [str(self.stack.program), *arguments, "--stack", self.stack.stack]
        return [*command, "--non-interactive", "--color=never"]

    def trainer(self, *arguments: str) -> None:
        """Run a command of the trainer."""
        self.commands.run([TRAINER, "-m", "trainer", *arguments])

    def trainer_json(self, *arguments: str) -> Any:
        """Run a command of the trainer that answers with JSON, and return its answer."""
        return self._json([str(TRAINER), "-m", "trainer", *arguments, "--json", "True"])

    def _json(self, command: Sequence[str], status: int = 0) -> Any:
        return json.loads(self.commands.run(command, status=status, separate=True))

    @property
    def group(self) -> str:
        """Id of the stack's resource group."""
        outputs = self.facts.outputs
        subscription, group = outputs["subscription_id"], outputs["resource_group"]
        return f"/subscriptions/{subscription}/resourceGroups/{group}"

    @property
    def workspace(self) -> str:
        """Id of the stack's workspace."""
        name = self.facts.outputs["workspace"]
        return f"{self.group}/providers/Microsoft.MachineLearningServices/workspaces/{name}"

    def cluster(self, role: str) -> str:
        """Return the id of a cluster by its role, such as `gpu`."""
        return f"{self.workspace}/computes/{self.facts.outputs['clusters'][role]['name']}"


def require(condition: object, problem: str) -> None:
    """Fail the step unless a condition holds.

    Args:
        condition: Required condition.
        problem: Message if it does not hold.

    Raises:
        RehearsalError: the condition does not hold.
    """
    if not condition:
        raise RehearsalError(problem)


def require_within(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds, and fail the step if it does not in time.

    Raises:
        RehearsalError: the condition did not hold in time.
    """
    if not wait_until(condition, seconds, poll_seconds=0.1):
        raise RehearsalError(f"timed out after {seconds:g} s waiting for {what}")
