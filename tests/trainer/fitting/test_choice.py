"""The run that is chosen for a data set follows from its facts alone."""

from dataclasses import replace

import pytest

from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.early_stop.leaf import EarlyStopOptions, ended
from trainer.fitting.choice import EPOCHS, MOST_WORK, SIZES, UNEQUAL, Facts, choose
from trainer.presets import parse_train, to_args
from trainer.tasks.classification.leaf import CLASSIFICATION

SUGGESTION = CLASSIFICATION.suggestion
XRAYS = Facts(3000, 224, (2130, 660, 210))


def chosen(facts, **more):
    return choose(facts, "data/x", SUGGESTION, **more)


def weighted(config):
    return config.of(ImbalanceOptions).by == "weights"


CHOSEN = {
    # Images, median short side, weights, GPU: preset, pixels, epochs.
    (300, 64, None, False): ("own-images", 64, 120),
    (3000, 64, None, False): ("own-images", 64, 20),
    (3000, 224, None, False): ("own-images", 96, 20),
    (600, 224, None, False): ("own-images", 96, 100),
    (300, 224, None, False): ("own-images", 128, 120),
    (50_000, 224, None, False): ("own-images", 64, 12),
    (1797, 32, None, False): ("digits", 32, 20),
    (3000, 64, "w", False): ("own-images-finetune", 96, 4),
    (1000, 224, "w", False): ("own-images-finetune", 128, 10),
    (3000, 224, None, True): ("images-224", 224, 120),
    (3000, 160, "w", True): ("images-224-finetune", 160, 30),
    (200_000, 224, None, True): ("images-224-node", 224, 120),
    (3000, 96, None, True): ("own-images", 96, 20),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_preset_size_and_epochs_follow_from_images_weights_and_machine(case):
    images, short, weights, gpu = case
    config = chosen(Facts(images, short, (images // 2,) * 2, gpu=gpu), weights=weights).config
    assert (config.preset, config.model.image_size, config.epochs) == CHOSEN[case]
    assert config.model.weights == weights
    assert config.data.dir == "data/x"
    assert parse_train(to_args(config)) == config


@pytest.mark.parametrize("images", [40, 500, 2500, 7000, 10**6])
@pytest.mark.parametrize("short", [None, 64, 100, 500])
def test_larger_images_are_taken_only_as_far_as_the_work_stays_bounded(images, short):
    config = chosen(Facts(images, short)).config
    size, epochs = config.model.image_size, config.epochs
    assert EPOCHS[0] <= epochs <= EPOCHS[1]
    assert size in SIZES
    assert size <= max(short or 0, SIZES[0])
    assert size == SIZES[0] or images * epochs * (size / SIZES[0]) ** 2 <= MOST_WORK


def test_classes_are_weighted_from_a_ratio_on_and_the_reason_names_it():
    equal, unequal = Facts(400, 64, (300, 101)), Facts(400, 64, (300, 100))
    assert unequal.unequal == UNEQUAL
    assert [weighted(chosen(facts).config) for facts in (equal, unequal)] == [False, True]
    assert weighted(chosen(XRAYS).config)
    assert "the largest has 10.1 images for each of the smallest" in " ".join(chosen(XRAYS).reasons)
    # A class without images, of which a run warns, has no share that could be weighted.
    assert not weighted(chosen(Facts(400, 64, (200, 200, 0))).config)


@pytest.mark.parametrize(
    ("photographs", "mirror", "flip", "words"),
    [
        (False, None, False, "left and right may differ; else add --mirror True"),
        (True, None, True, "because they are photographs; if left and right differ, add"),
        (True, False, False, "are not mirrored, as you said"),
        (False, True, True, "are mirrored, as you said"),
    ],
)
def test_only_photographs_are_mirrored_unless_someone_says_so(photographs, mirror, flip, words):
    choice = chosen(replace(XRAYS, photographs=photographs), mirror=mirror)
    assert choice.config.data.flip == flip
    assert words in "; ".join(choice.reasons)
    assert choice.config.data.min_crop_area == (0.35 if photographs else 0.75)


def test_digits_are_not_mirrored_whatever_their_files_are():
    assert not chosen(Facts(1797, 32, (180,) * 10, photographs=True)).config.data.flip


@pytest.mark.parametrize(
    ("held_out", "epochs", "patience"), [(99, 20, 0), (100, 20, 6), (100, 12, 4)]
)
def test_enough_held_out_images_end_a_run_by_the_balanced_accuracy(held_out, epochs, patience):
    facts = replace(XRAYS, images={20: 3000, 12: 5000}[epochs], held_out=held_out)
    config = chosen(facts).config
    assert config.epochs == epochs
    options = config.of(EarlyStopOptions)
    assert options.patience == patience
    assert config.result_of == ("best" if patience else "last")
    if patience:
        assert options.metric == "balanced_accuracy"
        assert ended(config, [0.5] * (patience + 1))
        assert not ended(config, [0.5] * patience)
    assert parse_train(to_args(config)) == config
