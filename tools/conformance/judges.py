"""The judges, a row each."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.program import load
from tools.conformance.installation import Go, Npm, Platform, Python, Source
from tools.conformance.verdict import Verdict


@dataclass(frozen=True)
class Judge:
    """A program that others wrote, and how it is asked."""

    judges: str
    """The subject that it judges, as words for the table of the documents."""
    source: Source
    """How the program is got."""
    run: str
    """MODULE:FUNCTION that takes the folder in which the program is installed, and returns its
    `Verdict`."""
    needs: str = ""
    """Environment variable with the folder of what no registry has; the judge is asked only where
    it is set."""

    @property
    def is_here(self) -> bool:
        """Whether the judge can be asked."""
        return not self.needs or bool(os.environ.get(self.needs))

    def ask(self, workspace: Path) -> Verdict:
        """Run the judge; its program is installed in `workspace`."""
        function: Callable[[Path], Verdict] = load(self.run)
        return function(workspace)


JUDGES: Final[Mapping[str, Judge]] = {
    "fake-servers": Judge(
        "requests of `jobs/` and of the simulator's provider",
        Go("control_plane"),
        "tools.conformance.control_plane:requests",
    ),
    "go-clients": Judge(
        "answers of the simulator to PUT, GET, lists and DELETE",
        Go("control_plane"),
        "tools.conformance.control_plane:answers",
    ),
    "recorded-calls": Judge(
        "answers of the simulator, against those of Azure itself",
        Platform("rehearsal.simulator"),
        "tools.conformance.recordings:judge",
        needs="RECORDINGS",
    ),
    "python-client": Judge(
        "answers of the simulator", Python("python-client"), "tools.conformance.clients:python"
    ),
    "node-client": Judge(
        "answers of the simulator", Npm("node_client"), "tools.conformance.clients:node"
    ),
    "checkov": Judge("rendered stacks", Python("checkov"), "tools.conformance.stacks:judge"),
    "azure-cli": Judge(
        "the simulator, by commands that people type",
        Python("azure-cli"),
        "tools.conformance.azure_cli:judge",
    ),
    "job-files": Judge(
        "the job service of the simulator",
        Platform("azure.ai.ml"),
        "tools.conformance.job_files:judge",
    ),
    "scoring": Judge("the scoring server", Python("scoring"), "tools.conformance.scoring:judge"),
}
"""By name, which is that of the folder in .tools/conformance/ as well."""
