import pytest

from common.errors import UserError
from jobs.assets import data_sets
from jobs.assets.prepared_data import locate, register_prepared
from jobs.azure.workspace import connect
from jobs.errors import ConflictError, MissingError
from jobs.options import DataOptions
from tests.jobs.support.folders import write_shards
from tests.jobs.support.runs import container
from trainer.data.manifest import read_manifest


def write(live, folder, to, *, without=(), cut=None):
    """Upload a folder as a job's mount does: without hashes."""
    client = container(live, "prepared")
    for path in folder.iterdir():
        if path.name not in without:
            content = path.read_bytes()
            client.upload_blob(f"{to}/{path.name}", content[:-1] if path.name == cut else content)


def register(live, folder, *name):
    workspace = connect(live.outputs)
    return register_prepared(workspace.manager, workspace.storage, folder, *name)


def test_what_a_job_has_prepared_is_registered_by_its_manifest(live, tmp_path):
    folder = write_shards(tmp_path / "set")
    write(live, folder, "by-job/cats")
    asset = register(live, "by-job/cats")
    assert asset.reference == f"cats:{read_manifest(folder).version}"
    assert asset.tags["images"] == "40"
    assert register(live, "by-job/cats") == asset
    found = data_sets.versions(connect(live.outputs).manager, "cats")
    assert found == {
        asset.version: "/datastores/training_data_prepared/paths/by-job/cats",
    }


def test_the_same_version_in_another_folder_is_refused(live, tmp_path):
    folder = write_shards(tmp_path / "set")
    write(live, folder, "twice/one")
    write(live, folder, "twice/other")
    register(live, "twice/one", "dogs")
    with pytest.raises(ConflictError, match="is already registered at"):
        register(live, "twice/other", "dogs")


def test_a_preparation_that_did_not_end_is_told(live, tmp_path):
    write(live, write_shards(tmp_path / "set"), "unfinished", without=["manifest.json"])
    with pytest.raises(MissingError, match=r"prepared/unfinished: manifest\.json is missing"):
        register(live, "unfinished")


def test_shards_that_do_not_fit_are_named(live, tmp_path):
    first, second = "train-00000.tfrecord", "train-00001.tfrecord"
    write(live, write_shards(tmp_path / "set"), "unfit-job", without=[first], cut=second)
    with pytest.raises(
        UserError, match=f"{first}: missing\n  - {second}: 19999 bytes instead of 20000"
    ):
        register(live, "unfit-job")


def test_a_run_is_not_given_data_that_trainings_cannot_read(live):
    storage = connect(live.outputs).storage
    uri = "azureml://datastores/{}/paths/cats".format
    data = DataOptions(asset="cats:1")
    stores = live.outputs.datastores
    assert locate(storage, data, uri(stores.prepared.name)) == (stores.prepared, "cats")
    with pytest.raises(UserError, match=r"cannot read the datastore of cats:1 \(training_data_raw"):
        locate(storage, data, uri(stores.raw.name))
