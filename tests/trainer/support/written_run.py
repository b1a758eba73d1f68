"""A run folder written by hand: figures, predictions and images without training."""

import csv
import json

from PIL import Image

from common.fields import to_dict
from trainer.presets import PRESETS
from trainer.tasks.classification.files import COLUMNS, NAMES

HOSTILE = "</script><script>alert('x')</script>&\"<img src=x onerror=alert(1)>"
SECONDS = {"compile": 10.0, "train": 20.0, "evaluation": 4.0, "checkpoint": 1.0}
START = 1_700_000_000.0


def write_metrics(folder, *, stops_at=60, ends_at=100, note=None):
    """Two attempts: the first was stopped, the second continued it."""
    lines = []

    def add(event, step, **values):
        lines.append({"event": event, "step": step, "time": START + step, **values})

    for step in range(0, ends_at + 1, 5):
        if step in (0, stops_at):
            if step:
                add("stop", step)
            environment = {"python": "3.11.2", "processor": "abacus", "load_average": [0.5, 1.25]}
            add("start", step, attempt=1 + bool(step), ranks=2, environment=environment)
        if step:
            values = {"loss": 3 - step / 50, "train_top1": step / 110, "gradient_norm": 1 + step}
            values |= {"images_per_second": 500.0 + step, "data_wait_percent": step / 20}
            add("train", step, epoch=step / 20, learning_rate=0.1, **values)
        if step and step % 20 == 0:
            values = {"top1": step / 105, "top5": 1.0, "validation_loss": 2 - step / 60}
            add("evaluation", step, epoch=step / 20, **values)
            add("checkpoint", step, seconds=SECONDS)
    if note is not None:
        add("predictions", ends_at, **note)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def write_run(folder, *, names="0123456789", wrong=(), examples=40, images=True, **changes):
    """A finished run of digits; `wrong` holds pairs of true and predicted class."""
    folder.mkdir(parents=True)
    config = to_dict(PRESETS["digits"]) | {"name": "run", **changes}
    facts = {"ranks": 2, "global_batch": 64, "data_version": "abc"}
    (folder / "config.json").write_text(json.dumps({"config": config, **facts}))
    right = [(n % len(names), n % len(names)) for n in range(examples - len(wrong))]
    note = {"examples": examples, "mistakes": len(wrong), "images": len(wrong)}
    write_metrics(folder, note=note)
    (folder / "mistakes").mkdir()
    with (folder / "predictions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("index", *COLUMNS, *NAMES))
        for index, (label, predicted) in enumerate([*right, *wrong]):
            surety = [0.5 + index / 100, 0.5 - index / 100]
            writer.writerow([index, label, predicted, *surety, names[label], names[predicted]])
            if label != predicted and images:
                picture(index).save(folder / "mistakes" / f"{index}.png")
    result = {"top1": 1 - len(wrong) / examples, "top5": 1.0, "examples": examples, "steps": 100}
    result |= {"training_seconds": 34.5, "images_per_second": 640.0, "ranks": 2, "attempts": 2}
    result |= {"epochs": 5.0, "seconds": SECONDS}
    (folder / "result.json").write_text(json.dumps(result))
    lines = (folder / "metrics.jsonl").read_text()
    finish = {"event": "finish", "step": 100, "time": START + 101, **result}
    (folder / "metrics.jsonl").write_text(lines + json.dumps(finish) + "\n")
    return folder


def picture(index):
    """An image that is unlike those of other indices."""
    return Image.new("L", (8, 8), 5 * index)


def change_result(run, **changes):
    """Replace values of result.json."""
    path = run / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
