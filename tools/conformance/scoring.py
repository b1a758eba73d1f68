"""schemathesis asks the scoring server, by its OpenAPI document, and judges what it answers."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from common.waiting import wait_until
from tools.conformance.installation import ROOT, run_program
from tools.conformance.verdict import ConformanceError, Verdict, explained

TRAINER: Final = str(ROOT / ".venv-trainer" / "bin" / "python")
READY_SECONDS: Final = 300.0
SMALL: Final = (
    *("--preset", "digits", "--ranks", "1", "--max-steps", "2", "--restarts", "0"),
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--export", "True", "--log.report", "False"),
)
ASKED: Final = (
    *("--max-examples", "40", "--generation-deterministic", "--report", "json"),
    # A schema cannot say that bytes are an image, so most generated ones are refused, as they
    # should be.
    *("--exclude-checks", "positive_data_acceptance"),
)
REASONS: Final[Mapping[str, str]] = {}
"""Why a refusal stays, by the beginning of its words."""


def judge(workspace: Path) -> Verdict:
    """Ask schemathesis about the server of a small classification."""
    with tempfile.TemporaryDirectory(prefix="scoring-") as scratch:
        folder = Path(scratch)
        run_program(
            [TRAINER, "-m", "trainer", "train", *SMALL, "--name", "judged"], folder, _environment()
        )
        with _server(folder) as address:
            report = folder / "report.json"
            run_program(
                [
                    *(str(workspace / "bin" / "schemathesis"), "run", f"{address}/openapi.json"),
                    *(*ASKED, "--report-json-path", str(report)),
                ],
                folder,
                statuses=(0, 1),
            )
            said = json.loads(report.read_text())
    if not said["complete"] or said["errors"]:
        raise ConformanceError(f"schemathesis did not complete: {said['errors']}")
    return verdict(said)


def verdict(said: Mapping[str, Any]) -> Verdict:
    """Return the verdict of schemathesis' report. Pure."""
    cases, operations = said["test_cases"], said["operations"]["tested"]
    return Verdict(
        "schemathesis",
        said["schemathesis_version"],
        f"{cases['generated']} requests to {operations} operations",
        cases["generated"] - cases["with_failures"],
        explained(
            (
                f"{failure['title']}: {operation}"
                for failure in said["failures"]
                for operation in failure["operations"]
            ),
            REASONS,
        ),
    )


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Run the server of the run in a folder; yield its address when it is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address, log = f"http://127.0.0.1:{port}", folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(TRAINER, "-m", "trainer", "serve", "--run", "runs/judged"),
                *("--port", str(port), "--workers", "1"),
            ],
            cwd=folder,
            env={**os.environ, **_environment()},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ready() -> bool:
        if process.poll() is not None:
            raise ConformanceError(f"the server ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        if not wait_until(ready, READY_SECONDS, 0.5):
            raise ConformanceError(f"the server is not ready after {READY_SECONDS:.0f} s")
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
