"""The summary before a job is submitted."""

from dataclasses import replace

from jobs.assets.prepared_data import plan
from jobs.spec.summary import document, lines
from tests.jobs.support.manifests import manifest
from tests.jobs.support.platform import platform
from tests.jobs.support.samples import check, smoke, training
from trainer.presets import PRESETS

IMAGENET = PRESETS["imagenet-ndv2"]


def test_a_summary_names_what_is_paid_for_and_guesses_nothing():
    spec, found = training(4, platform()), manifest()
    text = lines(spec, plan(IMAGENET, spec.ranks, found), found, None)
    assert "4 x Standard_ND40rs_v2 with 8 GPUs, InfiniBand, LowPriority" in text
    assert f"version {found.version}: 1,281,167 training images, 1,000 classes" in text
    assert "over 32 ranks" in text
    assert "azureml:imagenet:3 (ro_mount)" in text
    assert "7 days" in text
    assert "note: Spot nodes may be pre-empted" in text
    assert "$" not in text


def test_a_summary_names_the_gpus_of_a_rank_with_several():
    spec = replace(training(4, platform()), gpus_per_process=2, processes_per_node=4)
    text = lines(spec, plan(IMAGENET, spec.ranks, manifest()), None, None)
    assert "over 16 ranks of 2 GPUs" in text


def test_a_summary_says_why_steps_are_not_known():
    text = lines(training(1, platform()), None, None, "the container cannot be read from here")
    assert "unknown: the container cannot be read from here" in text


def test_a_check_has_no_steps():
    assert "steps" not in lines(check(platform()), None, None, None)


def test_a_summary_for_a_program_has_the_same_facts():
    spec = smoke(platform())
    found = document(spec, plan(PRESETS["digits"], spec.ranks, None))
    assert found["steps"] == plan(PRESETS["digits"], 2, None).last_step
    assert found["run"] == spec.run
    assert found["cluster"] == spec.cluster.name
