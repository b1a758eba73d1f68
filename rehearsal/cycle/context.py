"""What the steps of a cycle work on, and what they have learnt."""

import datetime as dt
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rehearsal.cycle.commands import Said, Shell
from rehearsal.cycle.record import Attempt, Pool
from rehearsal.loopback import Loopback
from rehearsal.machine_learning.jobs import JOB
from rehearsal.pulumi.deployment import ROOT, Deployment
from rehearsal.resources.computes import COMPUTE

TRAINER: Final = ROOT / ".venv-trainer" / "bin" / "python"
_LOOK_SECONDS: Final = 0.1


@dataclass
class Learnt:
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


class Scene:
    """An Azure with a stack, and a shell in front of it.

    Args:
        azure: where everything is.
        stack: that is deployed to it.
        folder: for everything that is written.
        tell: shows a person a line of what goes on.
    """

    def __init__(
        self, azure: Loopback, stack: Deployment, folder: Path, tell: Callable[[str], None]
    ) -> None:
        self.azure, self.stack, self.folder = azure, stack, folder
        self.learnt = Learnt()
        self._tell = tell
        self.shell = Shell(
            folder / "logs", ROOT, lambda: stack.command_environment, azure.end_commands
        )

    def jobs(self, verb: str, *arguments: str, live: bool = False) -> Said:
        """Give a command of `python -m jobs`; `live` shows its lines as they come."""
        command = [sys.executable, "-m", "jobs", verb, *arguments]
        at = command.index("--") if "--" in command else len(command)
        command[at:at] = ["--stack", self.stack.stack]
        return self.shell.run(command, said=self._tell if live else None)

    def asked(self, verb: str, *arguments: str) -> Any:
        """The JSON answer of a command of `python -m jobs`."""
        command = [sys.executable, "-m", "jobs", verb, *arguments, "--json"]
        said = self.shell.run([*command, "--stack", self.stack.stack], separate=True)
        return json.loads(said.answer)

    def pulumi(self, *arguments: str, separate: bool = False) -> Said:
        """Give a command of Pulumi; `separate` keeps its answer apart from its warnings."""
        command = [str(self.stack.program), *arguments, "--stack", self.stack.stack]
        command += ["--non-interactive", "--color=never"]
        return self.shell.run(command, separate=separate)

    def trainer(self, *arguments: str) -> Said:
        """Give a command of the trainer."""
        return self.shell.run([TRAINER, "-m", "trainer", *arguments])

    @property
    def group(self) -> str:
        """Id of the stack's resource group."""
        found = self.learnt.outputs
        return f"/subscriptions/{found['subscription_id']}/resourceGroups/{found['resource_group']}"

    @property
    def workspace(self) -> str:
        """Id of the stack's workspace."""
        name = self.learnt.outputs["workspace"]
        return f"{self.group}/providers/Microsoft.MachineLearningServices/workspaces/{name}"

    def cluster(self, role: str) -> str:
        """Id of a cluster, such as that of the role `gpu`."""
        return f"{self.workspace}/computes/{self.learnt.outputs['clusters'][role]['name']}"

    def nodes(self, cluster: str) -> int:
        """That a cluster has and somebody pays for."""
        return _paid(self.azure.engine.nodes(cluster))

    def attempts(self) -> tuple[Attempt, ...]:
        """All jobs of the workspace, the oldest first."""
        found = []
        for document in self.azure.resources.of_kind(JOB):
            record = self.azure.runs.get(document["id"])
            properties = document["properties"]
            nodes = int((properties.get("resources") or {}).get("instanceCount") or 1)
            each = int((properties.get("distribution") or {}).get("processCountPerInstance") or 1)
            most = self.azure.options.most_processes_per_node or each
            error = ((record.get("error") or {}).get("error") or {}).get("message", "")
            found.append(
                Attempt(
                    job=document["name"],
                    cluster=properties["computeId"].rpartition("/")[2],
                    nodes=nodes,
                    ranks=nodes * min(each, most),
                    began=_seconds(record.get("startTimeUtc") or record["createdUtc"]),
                    ended=_seconds(record["endTimeUtc"]) if "endTimeUtc" in record else None,
                    status=record["status"],
                    reason=error,
                )
            )
        found.sort(key=lambda one: one.began)
        return tuple(found)


class Watch:
    """Looks at the nodes of all clusters again and again, from a thread of its own.

    Args:
        azure: where the clusters are.
    """

    def __init__(self, azure: Loopback) -> None:
        self._azure = azure
        self._pools: dict[str, tuple[str, str, list[tuple[float, int]]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def pools(self) -> tuple[Pool, ...]:
        """Clusters that have ever had a node."""
        return tuple(
            Pool(name, size, priority, tuple(samples))
            for name, (size, priority, samples) in sorted(self._pools.items())
            if any(nodes for _, nodes in samples)
        )

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            for document in self._azure.resources.of_kind(COMPUTE):
                self._look(document)

    def _look(self, document: dict[str, Any]) -> None:
        inner = document["properties"]["properties"]
        _, _, samples = self._pools.setdefault(
            document["name"], (inner["vmSize"], inner.get("vmPriority", "Dedicated"), [])
        )
        nodes = _paid(self._azure.engine.nodes(document["id"]))
        if not samples or samples[-1][1] != nodes:
            samples.append((time.time(), nodes))


def _paid(nodes: list[dict[str, Any]]) -> int:
    return sum(node["nodeState"] != "preempted" for node in nodes)


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()
