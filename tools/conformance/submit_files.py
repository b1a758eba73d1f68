"""Submits job files to the simulator: `python -m tools.conformance.submit_files`."""

import json
import time
from pathlib import Path
from typing import Final

from azure.ai.ml import MLClient, load_job
from azure.identity import EnvironmentCredential

from tools.conformance.job_files import FILES

_ENDED: Final = ("Completed", "Failed", "Canceled")


def end(client: MLClient, path: Path) -> str:
    """Submit a file; return how its job ended, or the first line of the refusal."""
    try:
        name = client.jobs.create_or_update(load_job(path)).name
    except Exception as error:  # noqa: BLE001 - any error is the verdict on a file
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    while (status := client.jobs.get(name).status) not in _ENDED:
        time.sleep(0.2)
    return next(state for state in _ENDED if state == status)


if __name__ == "__main__":
    sign_in = EnvironmentCredential(disable_instance_discovery=True)
    workspace = MLClient(sign_in, "s", "examples", "main", enable_telemetry=False)
    print(json.dumps({path.name: end(workspace, path) for path in sorted(FILES.glob("*.yml"))}))
