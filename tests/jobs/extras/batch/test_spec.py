"""The job that scores in batch."""

import re

import pytest

from common.errors import ConfigError
from jobs.extras.batch.spec import BatchOptions
from tests.jobs.support import samples
from tests.jobs.support.platform import platform
from tests.jobs.support.samples import problems
from trainer.options import ScoreOptions

STACK = platform()


def test_a_scoring_reads_one_model_and_images_and_writes_beside_the_prepared_data():
    spec = samples.scoring(STACK)
    assert spec.cluster.identity_client_id == STACK.identities.preparation
    stores = STACK.datastores
    assert {name: folder.uri for name, folder in spec.inputs.items()} == {
        "model": f"azureml://datastores/{stores.results.name}/paths/models/flowers/2",
        "images": f"azureml://datastores/{stores.raw.name}/paths/photos/2026",
    }
    (output,) = spec.outputs.values()
    assert output.uri == f"azureml://datastores/{stores.prepared.name}/paths/scores/photos"
    assert spec.processes_per_node is None


def test_the_nodes_of_a_scoring_share_its_files_as_the_processes_of_mpirun():
    spec = samples.scoring(STACK, 4)
    assert (spec.nodes, spec.processes_per_node) == (4, 1)
    assert spec.command == samples.scoring(STACK).command
    assert int(spec.variables["DATASET_MOUNT_ATTRIBUTE_CACHE_TTL"]) <= 30_000


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"cluster": "gpu", "nodes": 1}, ["--cluster", "processes"]),
        ({"nodes": 5}, ["--nodes"]),
        ({"what": ScoreOptions(part=1, parts=2, model="m")}, ["--model", "--part", "--parts"]),
    ],
)
def test_a_scoring_that_could_not_run_is_refused(options, flags):
    assert problems(lambda: samples.scoring(STACK, **options)) == flags


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": "flowers"}, "MODEL: 'flowers' must be NAME:VERSION"),
        ({"input": "photos"}, "--input: 'photos' must be raw/FOLDER or prepared/FOLDER"),
        ({"input": "results/runs"}, "--input: 'results/runs' must be"),
        ({"input": "raw/../x"}, "--input: 'raw/../x' must be"),
        ({"output": "imagenet"}, "--output: 'imagenet' must be scores/NAME"),
        ({"output": "scores/../imagenet"}, "--output: 'scores/../imagenet' must be"),
    ],
)
def test_scores_are_written_beside_data_sets_and_never_into_one(options, says):
    sound = {"model": "flowers:2", "input": "raw/photos", "output": "scores/photos"}
    with pytest.raises(ConfigError, match=re.escape(says)):
        BatchOptions(**{**sound, **options})
