"""Job files in the style of Microsoft's examples, loaded and submitted by azure-ai-ml.

Its loader judges the files; it then sends each to the simulator, as `az ml job create --file` would.
A file is accepted if its job completes.
"""

import json
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from conformance.installation import ROOT, run_program
from conformance.verdict import Verdict, explained

FILES: Final = ROOT / "conformance" / "job_files"
WORKSPACE: Final = ROOT / "conformance" / "workspace.json"
REASONS: Final[Mapping[str, str]] = {
    "pipeline.yml": "the simulator runs command jobs only, and says so",
    "pytorch.yml": "this project starts ranks by MPI; the simulator runs no other distribution, and says"
    " so",
    "serverless.yml": "the simulator has no serverless compute, and says that no compute is named",
    "sweep.yml": "the simulator runs command jobs only, and says so",
}
"""Why a file is refused, by its name."""
_PACKAGE: Final = "azure-ai-ml"
_ENDED: Final = ("Completed", "Failed", "Canceled")


def judge(workspace: Path) -> Verdict:  # noqa: ARG001 - installed with the platform
    """Submit all files to a simulator."""
    python = str(ROOT / ".venv" / "bin" / "python")
    said = run_program(
        [
            *(python, "-m", "rehearsal", "serve", "--resources", str(WORKSPACE)),
            *("--program-folder", str(Path(python).parent)),
            *("--", python, "-m", "conformance.job_files"),
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


def main() -> None:
    """Submit each file to the simulator of the environment; print how the jobs ended, as JSON."""
    from azure.ai.ml import MLClient
    from azure.identity import EnvironmentCredential

    sign_in = EnvironmentCredential(disable_instance_discovery=True)
    client = MLClient(sign_in, "s", "examples", "main", enable_telemetry=False, show_progress=False)
    print(json.dumps({path.name: _end(client, path) for path in sorted(FILES.glob("*.yml"))}))


def _end(client: Any, path: Path) -> str:
    """Submit a file; return how its job ended, or the first line of the refusal."""
    from azure.ai.ml import load_job

    try:
        name = client.jobs.create_or_update(load_job(path)).name
    except Exception as error:  # noqa: BLE001 - any error is the verdict on a file
        # azure-core begins with the error's code, and has the message in further lines.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines)[:200]}"
    while (status := client.jobs.get(name).status) not in _ENDED:
        time.sleep(0.2)
    return next(end for end in _ENDED if end == status)


if __name__ == "__main__":
    sys.exit(main())
