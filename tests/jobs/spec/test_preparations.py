"""The job that prepares a data set."""

from dataclasses import replace

import pytest

from jobs.commands.prepare import PrepareOptions
from jobs.errors import SpecError
from jobs.options import JobOptions, PreparationOptions
from jobs.spec import kinds
from tests.jobs.support import samples
from tests.jobs.support.platform import FIRST, SOFTWARE, platform
from tests.jobs.support.samples import problems
from trainer.options import PrepareFolderOptions, PrepareImagenetOptions

STACK = platform()


def test_a_preparation_reads_raw_and_writes_prepared_data_by_its_identity():
    spec = samples.preparation(STACK)
    assert spec.cluster.identity_client_id == STACK.identities.preparation
    assert STACK.datastores.raw.name in spec.inputs["raw"].uri
    assert STACK.datastores.prepared.name in spec.outputs["prepared"].uri


@pytest.mark.parametrize(
    ("what", "flags"),
    [
        (PrepareImagenetOptions(), ["--train", "--validation"]),
        (PrepareImagenetOptions(train="/a", validation="../b"), ["--train", "--validation"]),
        (PrepareImagenetOptions(train="a", validation="b", words="c/../../d"), ["--words"]),
        (PrepareFolderOptions(input="/photos"), ["--input"]),
        (PrepareFolderOptions(input="photos", names="hashed"), ["--names"]),
        (PrepareFolderOptions(input="photos", name_table="names.csv"), ["--names"]),
    ],
)
def test_a_preparation_reads_files_below_its_raw_folder_only(what, flags):
    folders = PreparationOptions(raw="raw", prepared="out")
    assert (
        problems(lambda: kinds.prepare(STACK, what, folders, JobOptions(), FIRST, SOFTWARE))
        == flags
    )


def prepared(clusters, **options):
    """The job of `jobs prepare folder` on a stack with these clusters."""
    stack = replace(STACK, clusters={**STACK.clusters, **clusters})
    command = PrepareOptions(what="folder", raw="raw", prepared="out", **options)
    folders = PreparationOptions(raw=command.raw, prepared=command.prepared)
    return kinds.prepare(
        stack, command.preparation(()), folders, command.job, FIRST, SOFTWARE
    ).cluster


def test_a_preparation_runs_on_the_usual_or_only_cluster_that_prepares_or_on_that_which_is_named():
    usual = STACK.clusters["preparation"]
    others = {"preparation": STACK.clusters["build"], "shards": replace(usual, name="shards")}
    assert prepared({}) == usual
    assert prepared(others).name == "shards"
    assert prepared({"shards": others["shards"]}, cluster="shards").name == "shards"
    with pytest.raises(SpecError, match="--cluster: is missing, as the stack dev has several"):
        prepared({**others, "more": replace(usual, name="more")})
    with pytest.raises(SpecError, match="--cluster: jobs on gpu may not write prepared data"):
        prepared({}, cluster="gpu")
