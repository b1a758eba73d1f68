"""Every kind of network in every form of parallelism: a run that is stopped and continued ends with
the bits of one that was not. Two pairs are in every test run, all of them are in the long one.
"""

import signal
from itertools import product
from pathlib import Path

import pytest

from tests.trainer.support.command import TINY, final_state, result
from tests.trainer.support.forked import fork_trainer
from trainer.data.builtin.writer import write_embedded
from trainer.extras.detection.data import shapes
from trainer.extras.multilabel import tiles
from trainer.extras.segmentation import scenes

NETWORKS = {
    "ResNet": TINY,
    "application": [*TINY, "--model.network", "MobileNetV3Small", "--model.image-size", "32"],
    "own builder, with dropout": [
        *(*TINY, "--model.builder", "tests.trainer.support.builders:good"),
        *("--optimizer.accumulation", "2"),
    ],
    "segmentation": [
        *("--preset", "scenes", "--model.width", "8", "--export", "False", "--epochs", "2"),
        *("--restarts", "0", "--log.every-steps", "2"),
    ],
    "detection, in two micro-batches": [
        *("--preset", "shapes", "--model.width", "8", "--export", "False", "--epochs", "2"),
        *("--restarts", "0", "--optimizer.accumulation", "2", "--model.image-size", "64"),
        *("--log.every-steps", "2"),
    ],
    "multi-label, in float16": [
        *("--preset", "tiles", "--model.width", "4", "--export", "False", "--epochs", "2"),
        *("--restarts", "0", "--optimizer.accumulation", "2", "--model.image-size", "16"),
        *("--compute.precision", "mixed_float16", "--multilabel.positive-weight", "2"),
        *("--log.every-steps", "2"),
    ],
}
WAYS = {
    "plain": [],
    "head groups": ["--head.groups", "2"],
    "averages": ["--averaging.every", "4", "--averaging.together-until", "0"],
    "sharded": ["--sharded.state", "True"],
    "virtual ranks": ["--virtual-ranks.count", "2"],
    "class weights": ["--imbalance.by", "weights", "--virtual-ranks.count", "2"],
    "class sampling": ["--imbalance.by", "sampling"],
    "deterministic": ["--compute.deterministic", "True"],
}
OF_PAIRS = {
    # AdamW is refused there: ranks would leave out different steps whose gradients overflowed.
    ("multi-label, in float16", "averages"): ["--optimizer.kind", "momentum"],
}
"""Further options of single pairs."""
ONE_CLASS = ("head groups", "class weights", "class sampling")
"""Ways that are for one class per image."""
OTHERS = ("segmentation", "detection", "multi-label")
"""Networks whose images have more than one class, or none."""
PAIRS = [
    (network, way)
    for network, way in product(NETWORKS, WAYS)
    if way not in ONE_CLASS or not network.startswith(OTHERS)
]
# Tests of their own show that the others continue bit-identically, with a network that is built
# sooner.
ALWAYS = {("own builder, with dropout", "sharded")}


FEW = {
    "scenes": (scenes, 160, 16),
    "shapes": (shapes, 80, 8),
    "tiles": (tiles, 320, 41),
}
"""Embedded data sets in smaller numbers: module, training and held-out images."""


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A folder with the embedded data sets, with fewer images."""
    folder = tmp_path_factory.mktemp("data")
    for name, (module, training, held_out) in FEW.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "TRAINING_IMAGES", training)
            patch.setattr(module, "VALIDATION_IMAGES", held_out)
            write_embedded(name, str(folder / name))
    return folder


@pytest.mark.parametrize(
    ("network", "way"),
    [
        pytest.param(*pair, marks=pytest.mark.slow if pair in ALWAYS else pytest.mark.long)
        for pair in PAIRS
    ],
)
def test_a_run_that_was_stopped_and_continued_ends_with_the_same_bits(network, way, workplace, few):
    for name in FEW:
        (workplace / "data" / name).symlink_to(few / name)
    # It is stopped in its first epoch, and ends in its second, after 22 steps of digits, or 5.
    stop, end = (2, 8) if "--preset" in NETWORKS[network] else (9, 24)
    # One rank takes twice as many steps in an epoch as two.
    ranks = 1 if way == "plain" else 2
    stop, end = 2 // ranks * stop, 2 // ranks * end
    options = [*NETWORKS[network], *WAYS[way], *OF_PAIRS.get((network, way), [])]
    options += ["--evaluation.every-epochs", "0", "--max-steps", str(end)]

    def train(name, **stop):
        args = ("train", *options, "--name", name)
        return fork_trainer(*args, cwd=workplace, ranks=ranks, small=False, **stop)

    whole = train("whole")
    assert whole.returncode == 0, whole.stderr
    stopped = train("parts", stop_at=(ranks - 1, signal.SIGTERM, stop))
    assert stopped.statuses == [143] * ranks, stopped.stderr
    ended = train("parts")
    assert ended.returncode == 0, ended.stderr
    runs = workplace / "runs"
    assert final_state(runs / "parts") == final_state(runs / "whole")
    assert outcome(runs / "parts") == outcome(runs / "whole")


def outcome(run: Path):
    """The result, without what depends on the clock or counts attempts, and the files of a run."""
    timed = ("attempts", "training_seconds", "images_per_second", "seconds")
    found = {key: value for key, value in result(run).items() if key not in timed}
    return found, {path.name for path in run.iterdir()}
