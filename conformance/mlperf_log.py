"""MLCommons' compliance checker judges the log of a real run, and damaged copies of it."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from conformance.installation import ROOT, run_program
from conformance.verdict import ConformanceError, Refusal, Verdict

RULES: Final = "4.0.0"
"""MLPerf Training's last rules with ResNet."""
TRAINER: Final = ROOT / ".venv-trainer" / "bin" / "python"
SMALL: Final = (
    *("--preset", "digits", "--ranks", "2", "--epochs", "2", "--restarts", "0"),
    *("--optimizer.warmup-epochs", "0.5"),
    *("--model.depth", "18", "--model.width", "4", "--model.image-size", "8"),
    *("--evaluation.every-epochs", "1", "--export", "False", "--log.report", "False"),
    *("--mlperf.log", "True", "--mlperf.organization", "judged", "--mlperf.platform", "cpu"),
)
Line = dict[str, Any]
Damage = Callable[[list[Line]], list[Line]]


def _without(key: str) -> Damage:
    return lambda lines: [line for line in lines if line["key"] != key]


def _twice(key: str, value: Any) -> Damage:
    return lambda lines: [
        *lines,
        *({**line, "value": value} for line in lines if line["key"] == key),
    ]


def _changed(key: str, change: Mapping[str, Any]) -> Damage:
    return lambda lines: [{**line, **change} if line["key"] == key else line for line in lines]


def _late_init(lines: list[Line]) -> list[Line]:
    """Move the end of the initialization behind the start of the run."""
    moved = [line for line in lines if line["key"] == "init_stop"]
    rest = [line for line in lines if line["key"] != "init_stop"]
    place = next(n for n, line in enumerate(rest) if line["key"] == "run_start")
    return [*rest[: place + 1], *moved, *rest[place + 1 :]]


DAMAGED: Final[Mapping[str, Damage]] = {
    "no start of the run": _without("run_start"),
    "no end of the run": _without("run_stop"),
    "no accuracy": _without("eval_accuracy"),
    "no number of training images": _without("train_samples"),
    "no word about caches": _without("cache_clear"),
    "two numbers of held-out images": _twice("eval_samples", 7),
    "a status that does not exist": _changed("submission_status", {"value": "rumoured"}),
    "a platform without a name": _changed("submission_platform", {"value": ""}),
    "a run without a status": _changed("run_stop", {"metadata": {}}),
    "an initialization that ends in the run": _late_init,
}


def judge(workspace: Path) -> Verdict:
    """Ask the checker about a run on two ranks, by the rules of the open division."""
    python = workspace / "bin" / "python"
    with tempfile.TemporaryDirectory(prefix="mlperf-") as scratch:
        folder = Path(scratch)
        run_program(
            [str(TRAINER), "-m", "trainer", "train", *SMALL, "--name", "judged"],
            folder,
            {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        text = (folder / "runs" / "judged" / "mlperf" / "attempt-1.log").read_text()
        lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines()]
        refused = []
        accepts, said = _accepts(python, folder, lines)
        if not accepts:
            refused.append(Refusal(f"the log of a run: {said}"))
        caught = 0
        for what, damage in DAMAGED.items():
            if _accepts(python, folder, damage(lines))[0]:
                refused.append(Refusal(f"accepted, although damaged: {what}"))
            else:
                caught += 1
    version = next(
        one.version
        for one in distributions(path=[str(next(workspace.glob("lib/python*/site-packages")))])
        if one.metadata["Name"] == "mlperf-logging"
    )
    judged = (
        f"{len(lines)} lines of a run on two ranks by the open rules {RULES}; {caught} of"
        f" {len(DAMAGED)} damaged copies are rejected"
    )
    return Verdict(
        "mlperf-logging's compliance checker", version, judged, int(accepts), tuple(refused)
    )


def _accepts(python: Path, folder: Path, lines: list[Line]) -> tuple[bool, str]:
    """Return whether the checker accepts a log, and its words."""
    file = folder / "judged.log"
    file.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))
    command = [
        *(str(python), "-m", "mlperf_logging.compliance_checker"),
        *("--usage", "training", "--ruleset", RULES, str(file)),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    words = (done.stdout + done.stderr).strip()
    if "SUCCESS" not in words and "FAIL" not in words:
        raise ConformanceError(f"the checker ended with {done.returncode}: {words[-2000:]}")
    return "SUCCESS" in words, words[-500:]
