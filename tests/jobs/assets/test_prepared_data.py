import pytest

from common.errors import UserError
from jobs.assets import data_sets
from jobs.assets.prepared_data import register_prepared
from jobs.azure.storage import container
from jobs.azure.workspace import connect
from jobs.errors import ConflictError, MissingError
from tests.jobs.support.folders import write_shards
from trainer.data.manifest import read_manifest


def write(live, folder, to, *, without=(), cut=None):
    """Put a folder into storage as a job's mount does: without hashes."""
    client = container(live.outputs.datastores.prepared, connect(live.outputs).credential)
    for path in folder.iterdir():
        if path.name not in without:
            content = path.read_bytes()
            client.upload_blob(f"{to}/{path.name}", content[:-1] if path.name == cut else content)


def test_what_a_job_has_prepared_is_registered_by_its_manifest(live, tmp_path):
    folder = write_shards(tmp_path / "set")
    write(live, folder, "by-job/cats")
    workspace = connect(live.outputs)
    asset = register_prepared(workspace, "by-job/cats")
    assert asset.reference == f"cats:{read_manifest(folder).version}"
    assert asset.tags["images"] == "40"
    assert register_prepared(workspace, "by-job/cats") == asset
    found = data_sets.versions(workspace, "cats")
    assert found == {
        asset.version: "/datastores/training_data_prepared/paths/by-job/cats",
    }


def test_the_same_version_in_another_folder_is_refused(live, tmp_path):
    folder = write_shards(tmp_path / "set")
    write(live, folder, "twice/one")
    write(live, folder, "twice/other")
    workspace = connect(live.outputs)
    register_prepared(workspace, "twice/one", "dogs")
    with pytest.raises(ConflictError, match="is registered already, at"):
        register_prepared(workspace, "twice/other", "dogs")


def test_a_preparation_that_did_not_end_is_told(live, tmp_path):
    write(live, write_shards(tmp_path / "set"), "unfinished", without=["manifest.json"])
    with pytest.raises(MissingError, match=r"prepared/unfinished: has no manifest\.json"):
        register_prepared(connect(live.outputs), "unfinished")


def test_shards_that_do_not_fit_are_named(live, tmp_path):
    first, second = "train-00000.tfrecord", "train-00001.tfrecord"
    write(live, write_shards(tmp_path / "set"), "unfit-job", without=[first], cut=second)
    with pytest.raises(UserError, match=f"{first}: missing\n  - {second}: 19999 bytes, not 20000"):
        register_prepared(connect(live.outputs), "unfit-job")
