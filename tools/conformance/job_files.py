"""Job files in the style of Microsoft's examples, loaded and submitted by azure-ai-ml.

Its loader reads each file and sends it to the simulator, as `az ml job create --file` would. A file
is accepted if its job completes.
"""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tools.conformance.installation import ROOT, run_program
from tools.conformance.verdict import Verdict, explained

FILES: Final = ROOT / "tools" / "conformance" / "examples"
WORKSPACE: Final = FILES / "workspace.json"
REASONS: Final[Mapping[str, str]] = {
    "pipeline.yml": "the simulator runs command jobs only, and says so",
    "pytorch.yml": "the simulator starts ranks by MPI only, and says so",
    "serverless.yml": "the simulator has no serverless compute, and says that no compute is named",
    "sweep.yml": "the simulator runs command jobs only, and says so",
}
"""Why a file is refused, by its name."""
_PACKAGE: Final = "azure-ai-ml"


def judge(workspace: Path) -> Verdict:  # noqa: ARG001 - installed with the platform
    """Submit all files to a simulator."""
    python = str(ROOT / ".venv" / "bin" / "python")
    said = run_program(
        [
            *(python, "-m", "rehearsal", "serve", "--resources", str(WORKSPACE)),
            *("--program-folder", str(Path(python).parent)),
            *("--", python, "-m", "tools.conformance.submit_files"),
        ],
        environment={"PYTHONPATH": str(ROOT)},
    )
    ends: dict[str, str] = json.loads(said.splitlines()[-1])
    refused = [f"{name}: {end}" for name, end in ends.items() if end != "Completed"]
    return Verdict(
        _PACKAGE,
        version(_PACKAGE),
        f"{len(ends)} job files",
        len(ends) - len(refused),
        explained(refused, REASONS),
    )
