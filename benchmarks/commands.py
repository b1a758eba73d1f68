"""The benchmarks, a row each.

A benchmark that measures has `measure`, which returns its raw rounds, `show`, which formats them,
and `goals` if it has any; the others have `run`.
"""

from typing import Final

from common.program import Command


def _row(name: str, group: str, summary: str, module: str = "", run: str = "measure") -> Command:
    folder = "training." if group == "train" and run == "measure" else ""
    path = f"benchmarks.{folder}{module or name}"
    return Command(name, group, summary, f"{path}:{run}", f"{path}:Options")


BENCHMARKS: Final = (
    _row("loop", "train", "CPU time of a step of the loop, compared with bare loops"),
    _row("exchange", "train", "CPU time of a gradient exchange, compared with all-reduce"),
    _row("virtual-ranks", "train", "cost of bits that no number of ranks changes", "virtual_ranks"),
    _row("evidence", "train", "CPU time of what a run states about itself, compared with steps"),
    _row("train", "train", "images/s of two ranks, compared with independent trainings"),
    _row(
        "scaling", "train", "images/s of this machine by number of ranks, as table and page",
        run="run",
    ),
    _row("gpu", "train", "images/s of a GPU, compared with others, and the bits of pairs of runs"),
    _row("batches", "train", "epochs to an accuracy on digits, by global batch"),
    _row("digits", "train", "accuracy and time of the first run, over several seeds"),
    Command(
        "own-images", "train", "balanced accuracy of `ml-trainer fit` and of others on six sets",
        "benchmarks.own_images.table:measure", "benchmarks.own_images.table:Options",
    ),
    _row("fine-tune", "train", "accuracy on few images, with weights of others", "fine_tune"),
    _row("input", "data", "CPU time of an image from shard to batch, and of decoding alone"),
    _row("prepare", "data", "CPU time of an image from file to shard, and of a plain copy"),
    _row(
        "growth", "data", "how CPU time and memory of a preparation grow with the images",
        "images.growth",
    ),
    _row(
        "removal", "data", "CPU time of removing metadata, compared with decoding",
        "images.removal",
    ),
    _row("damage", "data", "damaged JPEGs that decoders notice, and their cost", "images.damage"),
    _row("treatment", "data", "CPU time of treating and of decoding an image", "images.treatment"),
    _row(
        "decoding", "data", "CPU time of decoding a training image, by pixels and bytes",
        "images.decoding",
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
    _row("exports", "use a model", "size, result and time of a model in each precision"),
    _row("serve", "use a model", "images/s and times of requests to the scoring server"),
    Command(
        "spot", "train", "hours and USD of a run on Spot nodes that come and go, simulated",
        "benchmarks.spot.simulation:measure", "benchmarks.spot.simulation:Options",
    ),
    _row("operations", "look at runs", "the operations of a profiled step", run="run"),
    _row("timeline", "look at runs", "the phases of the exchange in a timeline", run="run"),
    _row(
        "documents", "documents", "fill the tables of the documents from benchmarks/results/",
        run="run",
    ),
)  # fmt: skip
