"""The trainer's command line as a person runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import ROOT
from trainer.checkpoints.folder import CheckpointFolder

TIMEOUT = 600

TINY = [
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--epochs", "2", "--optimizer.warmup-epochs", "0.5"),
    *("--data.streams", "4", "--data.shuffle-window", "50", "--log.every-steps", "5"),
    *("--log.report", "False", "--log.detail", "True"),
    *("--export", "False", "--restarts", "0"),
]
"""Options that make the digits preset train in a second or two, and once."""

SMALL = "tests.trainer.support.small"
"""The trainer, with a small model and a launcher that waits less."""


def start_trainer(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    module: str = "trainer",
    output: Path | None = None,
) -> "subprocess.Popen[str]":
    """Start a command; its output goes to a file, or else to pipes."""
    # tf2onnx silences TensorFlow in whatever process imports it, such as that of another test.
    inherited = {name: os.environ[name] for name in os.environ if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.Popen(
        [sys.executable, "-m", module, *args],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT), **(env or {})},
        stdout=output.open("w") if output else subprocess.PIPE,
        stderr=subprocess.STDOUT if output else subprocess.PIPE,
        text=True,
    )


def run_trainer(
    *args: str, cwd: Path, env: Mapping[str, str] | None = None, module: str = "trainer"
) -> "subprocess.CompletedProcess[str]":
    process = start_trainer(*args, cwd=cwd, env=env, module=module)
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def run_without_tensorflow(*args: str) -> str:
    """Run a command that must succeed without loading TensorFlow; return its stdout."""
    code = (
        f"import sys\nfrom trainer.cli import main\nstatus = main({list(args)!r})\n"
        "sys.exit(status or 'tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def result(run: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((run / "result.json").read_text())
    return data


def final_state(run: Path) -> dict[str, bytes]:
    """Every tensor of the newest checkpoint, as bytes."""
    newest = CheckpointFolder(run / "checkpoints").newest()
    assert newest is not None
    return {name: array.tobytes() for name, array in newest.load().items()}


def metrics(run: Path, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]
