"""What the steps of a cycle work on, and how they check the results."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from common.waiting import wait_until
from rehearsal.cycle.commands import CommandError, CommandOutput, CommandRunner
from rehearsal.cycle.webhook import Webhook
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback
from rehearsal.page.record import Attempt
from rehearsal.pulumi.deployment import ROOT, Deployment

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
    """An Azure with a stack, and the commands that work on it.

    Args:
        azure: Azure on loopback.
        stack: Stack that is deployed to it.
        folder: Folder for all output.
        show: Prints a line of a command's output.
        webhook: Receives the notices of all commands.
    """

    def __init__(
        self,
        azure: Loopback,
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

    def jobs(self, verb: str, *arguments: str, live: bool = False) -> CommandOutput:
        """Run `python -m jobs VERB`; `live` prints its output as it comes."""
        command = [sys.executable, "-m", "jobs", verb, *arguments]
        at = command.index("--") if "--" in command else len(command)
        command[at:at] = ["--stack", self.stack.stack]
        return self.commands.run(command, on_line=self._show if live else None)

    def jobs_json(self, verb: str, *arguments: str) -> Any:
        """Run `python -m jobs VERB --json` and return its answer."""
        command = [sys.executable, "-m", "jobs", verb, *arguments, "--json"]
        output = self.commands.run([*command, "--stack", self.stack.stack], separate=True)
        return json.loads(output.answer)

    def pulumi(self, *arguments: str, separate: bool = False) -> CommandOutput:
        """Run a Pulumi command; `separate` keeps its answer apart from its warnings."""
        command = [str(self.stack.program), *arguments, "--stack", self.stack.stack]
        command += ["--non-interactive", "--color=never"]
        return self.commands.run(command, separate=separate)

    def trainer(self, *arguments: str) -> CommandOutput:
        """Run a command of the trainer."""
        return self.commands.run([TRAINER, "-m", "trainer", *arguments])

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


def require(condition: object, problem: str, log: Path | None = None) -> None:
    """Fail the step unless a condition holds.

    Args:
        condition: Required condition.
        problem: Message if it does not hold.
        log: File with more about the problem.

    Raises:
        RehearsalError: the condition does not hold.
    """
    if not condition:
        raise RehearsalError(problem) if log is None else CommandError([problem], log)


def require_within(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds, and fail the step if it does not in time.

    Raises:
        RehearsalError: the condition did not hold in time.
    """
    if not wait_until(condition, seconds, poll_seconds=0.1):
        raise RehearsalError(f"timed out after {seconds:g} s waiting for {what}")
