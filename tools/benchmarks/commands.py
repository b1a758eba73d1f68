"""The benchmarks, a row each.

A benchmark that measures has `measure`, which returns its raw rounds, `show`, which formats them,
and `goals` if it has any; the others have `run`.
"""

from typing import Final

from common.program import Command


def _row(name: str, group: str, summary: str, module: str = "", run: str = "measure") -> Command:
    folder = "training." if group == "train" and run == "measure" else ""
    path = f"tools.benchmarks.{folder}{module or name}"
    return Command(name, group, summary, f"{path}:{run}", f"{path}:Options")


BENCHMARKS: Final = (
    _row("loop", "train", "CPU time of a step of the loop, compared with bare loops"),
    _row("exchange", "train", "CPU time of a gradient exchange, compared with all-reduce"),
    _row("train", "train", "images/s of two ranks, compared with independent runs"),
    _row(
        "scaling", "train", "images/s of this machine by number of ranks, as a table",
        run="run",
    ),
    _row("gpu", "train", "images/s of a GPU, compared with others, and the bits of pairs of runs"),
    _row("digits", "train", "accuracy and time of the first run, over several seeds"),
    Command(
        "own-images", "train", "balanced accuracy of `ml-trainer fit` and of others on six sets",
        "tools.benchmarks.own_images.table:measure", "tools.benchmarks.own_images.table:Options",
    ),
    _row("input", "data", "CPU time of an image from shard to batch, and of decoding alone"),
    _row("prepare", "data", "CPU time of an image from file to shard, and of a plain copy"),
    _row(
        "growth", "data", "how CPU time and memory of a preparation grow with the images",
        "images.growth",
    ),
    _row(
        "decoding", "data", "CPU time of decoding a training image, by pixels and bytes",
        "images.decoding",
    ),
    _row(
        "removal", "data", "CPU time of removing metadata, compared with decoding",
        "images.removal",
    ),
    _row(
        "augmentations", "data", "CPU time of augmenting a training image, and a picture of it",
        "images.augmentations",
    ),
    _row(
        "write-photos", "data", "write a folder of photographs like ImageNet's", "photos", "run"
    ),
    _row(
        "write-hospital", "data", "write a folder like that of a hospital, of X-ray-like images",
        "own_images.hospital", "run",
    ),
    _row("serve", "use a model", "images/s and times of requests to the scoring server"),
    _row("operations", "look at runs", "the operations of a profiled step", run="run"),
    _row("timeline", "look at runs", "the phases of the exchange in a timeline", run="run"),
    _row(
        "documents", "documents", "fill the tables of the documents from tools/benchmarks/results/",
        run="run",
    ),
)  # fmt: skip

GONE: Final = dict.fromkeys(
    ("virtual-ranks", "evidence", "batches", "fine-tune", "damage", "treatment",
     "exports", "spot"),
    "version 0.1.0 was the last with it, as its question is decided; tools/benchmarks/results/ has"
    " its rounds",
)  # fmt: skip
"""Benchmarks of earlier versions."""
