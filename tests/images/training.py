"""The runs that are tested in an image, and their results."""

import hashlib
import json

SMALL = [
    *("--model.depth", "18", "--model.width", "8", "--model.image-size", "8"),
    *("--epochs", "12", "--optimizer.warmup-epochs", "0.5"),
    *("--data.streams", "4", "--data.shuffle-window", "50", "--data.dir", "digits"),
    *("--log.every-steps", "5", "--evaluation.every-epochs", "0"),
]
"""270 steps of the digits data set with the smallest network that learns something."""

PACED = ("--exchange.cycle-time-ms", "40")
"""So that a step lasts as long on a fast machine, and the run is not over before it is
disturbed."""

BRIEF = ("--log.report", "False", "--export", "False")
SHORT = ("--max-steps", "3", *BRIEF)


def train(*options, before=()):
    """Return the command of a run on two ranks; `before` prefixes each rank's program."""
    trainer = ("python", "-m", "trainer", "train", "--preset", "digits")
    return ["mpirun", "-np", "2", *before, *trainer, *SMALL, *options]


def metrics(run, event):
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["event"] == event]


def saved(run):
    """Return the steps of the valid checkpoints in order, each with the hash of its tensors."""
    found = {}
    for done in run.glob("checkpoints/*/DONE"):
        step = json.loads((done.parent / "meta.json").read_text())["step"]
        found[step] = hashlib.sha256((done.parent / "state.safetensors").read_bytes()).hexdigest()
    return dict(sorted(found.items()))
