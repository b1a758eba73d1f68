"""What the steps of a cycle work on, and what they use to check what came of them."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from common.waiting import wait_until
from rehearsal.cycle.commands import CommandError, CommandOutput, CommandRunner
from rehearsal.errors import RehearsalError
from rehearsal.loopback import Loopback
from rehearsal.page.record import Attempt
from rehearsal.pulumi.deployment import ROOT, Deployment

TRAINER: Final = ROOT / ".venv-trainer" / "bin" / "python"

Findings: TypeAlias = Sequence[str]
"""What a step found, in short lines."""


@dataclass
class Facts:
    """What later steps need of earlier ones."""

    declared: int = 0
    """Resources of the stack."""
    outputs: dict[str, Any] = field(default_factory=dict)
    data_set: str = ""
    """NAME:VERSION of what was uploaded."""
    accuracy: float = 0.0
    """Top-1 that the training reported, from 0 to 1."""
    examples: int = 0
    attempts: tuple[Attempt, ...] = ()
    """Of the training."""


class CycleContext:
    """An Azure with a stack, and the commands that work on it.

    Args:
        azure: where everything is.
        stack: that is deployed to it.
        folder: for everything that is written.
        show: shows a person a line of a command's output.
    """

    def __init__(
        self, azure: Loopback, stack: Deployment, folder: Path, show: Callable[[str], None]
    ) -> None:
        self.azure, self.stack, self.folder = azure, stack, folder
        self.facts = Facts()
        self._show = show
        self.commands = CommandRunner(
            folder / "logs", ROOT, lambda: stack.command_environment, azure.end_commands
        )

    def jobs(self, verb: str, *arguments: str, live: bool = False) -> CommandOutput:
        """Give a command of `python -m jobs`; `live` shows its lines as they come."""
        command = [sys.executable, "-m", "jobs", verb, *arguments]
        at = command.index("--") if "--" in command else len(command)
        command[at:at] = ["--stack", self.stack.stack]
        return self.commands.run(command, on_line=self._show if live else None)

    def jobs_json(self, verb: str, *arguments: str) -> Any:
        """The JSON answer of a command of `python -m jobs`."""
        command = [sys.executable, "-m", "jobs", verb, *arguments, "--json"]
        output = self.commands.run([*command, "--stack", self.stack.stack], separate=True)
        return json.loads(output.answer)

    def pulumi(self, *arguments: str, separate: bool = False) -> CommandOutput:
        """Give a command of Pulumi; `separate` keeps its answer apart from its warnings."""
        command = [str(self.stack.program), *arguments, "--stack", self.stack.stack]
        command += ["--non-interactive", "--color=never"]
        return self.commands.run(command, separate=separate)

    def trainer(self, *arguments: str) -> CommandOutput:
        """Give a command of the trainer."""
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
        """Id of a cluster, such as that of the role `gpu`."""
        return f"{self.workspace}/computes/{self.facts.outputs['clusters'][role]['name']}"


def require(condition: object, problem: str, log: Path | None = None) -> None:
    """End the step unless a condition holds.

    Args:
        condition: that must hold.
        problem: what is wrong if it does not.
        log: file that says more about it.

    Raises:
        RehearsalError: it does not hold.
    """
    if not condition:
        raise RehearsalError(problem) if log is None else CommandError([problem], log)


def require_within(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds, and end the step if it does not come to hold in time.

    Raises:
        RehearsalError: it has not come to hold.
    """
    if not wait_until(condition, seconds, poll_seconds=0.1):
        raise RehearsalError(f"timed out after {seconds:g} s waiting for {what}")
