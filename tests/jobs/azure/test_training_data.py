"""The numbers of a run before it is submitted, from the manifest of its data set."""

from dataclasses import replace

import pytest

from common.errors import ConfigError, UserError
from jobs.assets.prepared_data import DIGITS_IMAGES, plan
from jobs.spec.summary import document, lines
from tests.jobs.support.platform import platform
from tests.jobs.support.samples import check, smoke, training
from trainer.data.manifest import Manifest, Origin, Shard, Split
from trainer.options import PrepareDigitsOptions
from trainer.presets import PRESETS

IMAGENET = PRESETS["imagenet-ndv2"]


def manifest(train=1_281_167, validation=50_000, classes=1000):
    def split(examples):
        return Split((Shard("s", examples, 1, "0" * 32, ()),), (examples,), ("jpeg",))

    names = tuple(f"class {number}" for number in range(classes))
    splits = {"train": split(train), "validation": split(validation)}
    return Manifest(names, (0.0,) * 3, (1.0,) * 3, splits, Origin("x"))


def test_steps_follow_from_images_and_ranks():
    found = plan(replace(IMAGENET, batch_size=256, epochs=90), 32, manifest())
    assert found.global_batch == 8192
    assert found.last_step == -(-90 * 1_281_167 // 8192)


def test_a_run_with_data_of_its_own_needs_no_manifest():
    assert plan(PRESETS["digits"], 2, None).examples == DIGITS_IMAGES
    assert f"{DIGITS_IMAGES:,} images to train on" in PrepareDigitsOptions.__doc__
    assert (
        plan(PRESETS["synthetic"], 2, None).examples == PRESETS["synthetic"].data.synthetic_examples
    )


def test_a_data_set_that_does_not_fit_is_refused_before_it_costs_anything():
    with pytest.raises(UserError, match="no images in the split 'validation'"):
        plan(IMAGENET, 8, manifest(validation=0))
    model = replace(IMAGENET.model, classes=10)
    with pytest.raises(UserError, match=r"--model\.classes: 10, but the data set has 1000"):
        plan(replace(IMAGENET, model=model), 8, manifest())
    with pytest.raises(ConfigError, match="--batch-size"):
        plan(IMAGENET, 8, manifest(train=100))


def test_a_summary_names_what_is_paid_for_and_guesses_nothing():
    spec, found = training(4, platform()), manifest()
    text = lines(spec, plan(IMAGENET, spec.ranks, found), found, None)
    assert "4 x Standard_ND40rs_v2 with 8 GPUs, InfiniBand, LowPriority" in text
    assert f"version {found.version}: 1,281,167 images to train on, 1000 classes" in text
    assert "over 32 ranks" in text
    assert "azureml:imagenet:3 (ro_mount)" in text
    assert "7 days" in text
    assert "note: nodes of LowPriority may be taken back" in text
    assert "$" not in text


def test_a_summary_says_why_steps_are_not_known():
    text = lines(training(1, platform()), None, None, "the container cannot be read from here")
    assert "not known: the container cannot be read from here" in text


def test_a_check_has_no_steps():
    assert "steps" not in lines(check(platform()), None, None, None)


def test_a_summary_for_a_program_has_the_same_facts():
    spec = smoke(platform())
    found = document(spec, plan(PRESETS["digits"], spec.ranks, None))
    assert found["steps"] == plan(PRESETS["digits"], 2, None).last_step
    assert found["run"] == spec.run
    assert found["cluster"] == spec.cluster.name
