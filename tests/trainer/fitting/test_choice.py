"""The run that is chosen for a data set follows from its facts alone."""

from dataclasses import replace

import pytest

from tests import ROOT
from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.early_stop.leaf import EarlyStopOptions, ended
from trainer.fitting.choice import (
    EPOCHS,
    FULL_SIZES,
    JUDGES,
    MOST_WORK,
    PHOTOGRAPH_CROP,
    SIZES,
    SMALL,
    UNEQUAL,
    Facts,
    choose,
)
from trainer.presets import parse_train, to_args
from trainer.tasks.classification.leaf import CLASSIFICATION
from trainer.training.plan import make_plan

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
    (200_000, 224, None, True): ("images-224", 224, 120),
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


@pytest.mark.parametrize(
    ("short", "images", "ranks", "batch"),
    [
        *((16, 1, 1, 1), (16, 2, 1, 2), (16, 4, 1, 4), (16, 7, 1, 4), (16, 8, 2, 4)),
        *((16, 128, 2, 8), (224, 3, 1, 2), (224, 4, 1, 4), (224, 64, 1, 8)),
    ],
)
def test_a_step_needs_no_more_images_than_there_are(short, images, ranks, batch):
    config = chosen(Facts(images, short)).config
    assert (config.ranks, config.batch_size) == (ranks, batch)
    assert make_plan(config, config.ranks, images).global_batch <= images


def test_the_page_has_the_numbers_of_the_choice():
    page = (ROOT / "docs" / "train-on-your-images.md").read_text()
    table = page.split("## What fit chooses")[1].split("| to | add |")[0]

    def run(images, short, **more):
        config = chosen(Facts(images, short, gpu=more.pop("gpu", False)), **more).config
        return config.epochs, config.model.image_size

    (fewest, _), (most, largest) = run(10**6, 224), run(1, 224)
    (few, least), (many, _) = run(10**6, 32, weights="w"), run(1, 224, weights="w")
    sizes = ", ".join(map(str, SIZES[:-1])) + f" or {largest}"
    for words in (
        f"below {SMALL} pixels, whole images for {run(900, 32)[0]} epochs",
        f"else {sizes} pixels",
        f"{fewest} to {most} epochs, so that the network sees {run(2000, 64)[0] * 2000:,} images",
        f"{least} or {largest} pixels whatever the short side, and {few} to {many} epochs",
        f"sees {run(1000, 64, weights='w')[0] * 1000:,} images",
        f"a class with {UNEQUAL:g} times the images",
        f"{JUDGES} held-out images or more",
        f"JPEGs in colour, from {SMALL} pixels on",
        f"crops of {PHOTOGRAPH_CROP:.0%}".replace("%", " %"),
        f"a GPU, and images of {FULL_SIZES[0]} pixels or more",
        f"up to {FULL_SIZES[-1]} pixels",
        f"{run(9, 224, gpu=True)[0]}, or {run(9, 224, gpu=True, weights='w')[0]} with `--weights`",
    ):
        assert words in table


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
@pytest.mark.parametrize("gpu", [False, True])
def test_only_photographs_are_mirrored_unless_someone_says_so(
    photographs, mirror, flip, words, gpu
):
    choice = chosen(replace(XRAYS, photographs=photographs, gpu=gpu), mirror=mirror)
    assert choice.config.data.flip == flip
    assert words in "; ".join(choice.reasons)
    assert choice.config.data.min_crop_area == (0.35 if photographs else 0.75)
    assert choice.config.data.eval_crop == (0.875 if photographs and gpu else 1.0)


def test_a_run_of_this_machine_takes_a_preset_for_one_gpu_whatever_the_number_of_images():
    runs = [chosen(replace(XRAYS, images=images, gpu=True)) for images in (3000, 10**6)]
    assert [run.config.preset for run in runs] == ["images-224"] * 2


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
