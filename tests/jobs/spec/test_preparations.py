"""The job that prepares a data set."""

import pytest

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
