"""Sample jobs of every kind, as in the golden files."""

from dataclasses import replace

import pytest

from jobs.errors import SpecError
from jobs.extras.batch.spec import BatchOptions, score
from jobs.options import (
    DataOptions,
    JobOptions,
    PreparationOptions,
    ServiceOptions,
)
from jobs.spec import kinds
from jobs.spec.run_key import RunAttempt
from tests.jobs.support.platform import FIRST, SOFTWARE, platform
from trainer.options import PrepareFolderOptions, PrepareImagenetOptions, ScoreOptions
from trainer.presets import PRESETS

IMAGENET = DataOptions(asset="imagenet:3")
TRAINING = PRESETS["imagenet-ndv2"]
SYNTHETIC = replace(PRESETS["synthetic"], batch_size=256, max_steps=500)


def problems(make):
    """The options that a job is refused for."""
    with pytest.raises(SpecError) as caught:
        make()
    return [problem.partition(":")[0] for problem in caught.value.problems]


def training(nodes, stack, attempt=FIRST, **options):
    chosen = JobOptions(nodes=nodes, data=IMAGENET, **options)
    return kinds.train(stack, TRAINING, chosen, attempt, SOFTWARE)


def smoke(stack, cluster=None):
    options = JobOptions(cluster=cluster)
    return kinds.train(
        stack, PRESETS["digits"], options, RunAttempt("smoke-digits"), SOFTWARE, "smoke"
    )


def benchmark(stack):
    return kinds.train(
        stack,
        SYNTHETIC,
        JobOptions(nodes=2),
        RunAttempt("synthetic-2-nodes"),
        SOFTWARE,
        "benchmark",
    )


def preparation(stack):
    return kinds.prepare(
        stack,
        PrepareImagenetOptions(
            train="ILSVRC2012_img_train.tar",
            validation="ILSVRC2012_img_val.tar",
            ground_truth="ILSVRC2012_devkit_t12.tar.gz",
            reencode="292:90",
        ),
        PreparationOptions(raw="ilsvrc2012", prepared="imagenet"),
        JobOptions(),
        RunAttempt("prepare-imagenet"),
        SOFTWARE,
    )


def folder_preparation(stack):
    return kinds.prepare(
        stack,
        PrepareFolderOptions(),
        PreparationOptions(raw="photos/2026", prepared="photos"),
        JobOptions(),
        RunAttempt("prepare-photos"),
        SOFTWARE,
    )


def scoring(stack, nodes=1, what=None, **options):
    return score(
        stack,
        what or ScoreOptions(),
        BatchOptions("flowers:2", "raw/photos/2026", "scores/photos"),
        "models/flowers/2",
        JobOptions(nodes=nodes, **options),
        RunAttempt("score-photos"),
        SOFTWARE,
    )


def check(stack):
    return kinds.check(
        stack, JobOptions(nodes=4, data=IMAGENET), RunAttempt("check-4-nodes"), SOFTWARE
    )


def tuned(stack):
    """Build a second attempt with non-default options."""
    return kinds.train(
        stack,
        replace(TRAINING, profile=replace(TRAINING.profile, steps="20:25")),
        JobOptions(
            nodes=2,
            cluster="gpu_dedicated",
            timeout_hours=12.5,
            shm_size="128g",
            variables=("NCCL_DEBUG=INFO",),
            data=DataOptions(
                path="imagenet/292",
                cache="files",
                cache_gb=500,
                read_threads=64,
                prefetch_blocks=80,
            ),
            services=ServiceOptions(
                ssh_public_key="ssh-ed25519 AAAAC3Nz a@b", vs_code=True, jupyter_lab=True
            ),
        ),
        FIRST.following(),
        SOFTWARE,
    )


def every_kind():
    """Return the sample jobs by the names of their golden files."""
    stack = platform()
    return {
        "train-1-node": training(1, stack),
        "train-4-nodes": training(4, stack),
        "train-most-nodes": training(stack.clusters["gpu"].max_nodes, stack),
        "train-tuned": tuned(platform(profile="allowlisted", dedicated=True)),
        "smoke": smoke(stack),
        "benchmark": benchmark(stack),
        "prepare-imagenet": preparation(stack),
        "prepare-folder": folder_preparation(stack),
        "score-1-node": scoring(stack),
        "score-4-nodes": scoring(stack, 4, ScoreOptions(format="csv")),
        "check": check(stack),
    }
