"""A training is planned before it is submitted, from the manifest of its data set."""

from dataclasses import replace

import pytest

from common.errors import ConfigError, UserError
from jobs.assets.prepared_data import plan
from tests.jobs.support.manifests import manifest
from trainer.data.builtin.options import PrepareDigitsOptions
from trainer.presets import PRESETS
from trainer.training.plan import EMBEDDED_EXAMPLES

IMAGENET = PRESETS["imagenet-ndv2"]


def test_steps_follow_from_images_and_ranks():
    found = plan(replace(IMAGENET, batch_size=256, epochs=90), 32, manifest())
    assert found.global_batch == 8192
    assert found.last_step == -(-90 * 1_281_167 // 8192)


def test_a_run_with_data_of_its_own_needs_no_manifest():
    assert plan(PRESETS["digits"], 2, None).examples == EMBEDDED_EXAMPLES["digits"]
    assert f"{EMBEDDED_EXAMPLES['digits']:,} training images" in PrepareDigitsOptions.__doc__
    assert (
        plan(PRESETS["synthetic"], 2, None).examples == PRESETS["synthetic"].data.synthetic_examples
    )


def test_a_data_set_that_does_not_fit_is_refused_before_it_costs_anything():
    with pytest.raises(UserError, match="has no images in the split 'validation'"):
        plan(IMAGENET, 8, manifest(validation=0))
    model = replace(IMAGENET.model, classes=10)
    with pytest.raises(UserError, match=r"--model\.classes: 10, but the data set has 1000"):
        plan(replace(IMAGENET, model=model), 8, manifest())
    with pytest.raises(ConfigError, match="--batch-size"):
        plan(IMAGENET, 8, manifest(train=100, classes=2))
    with pytest.raises(UserError, match="all training images are of the class"):
        plan(IMAGENET, 8, manifest(classes=1))
