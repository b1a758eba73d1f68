import json
import os
from dataclasses import replace

import pytest

from common.errors import ConfigError
from infra.outputs import to_dict
from jobs.azure.workspace import connect
from jobs.commands import upload
from jobs.commands.upload import UploadOptions
from jobs.errors import ConflictError, MissingError
from jobs.replication import command
from jobs.replication.command import ReplicateOptions
from jobs.transfer.blob_upload import BLOCK, BlobUploader
from jobs.transfer.folder_upload import FolderUpload
from jobs.transfer.local_files import LocalError
from tests.jobs.support.folders import write_shards
from tests.jobs.support.live import declare, sdk
from tests.jobs.support.platform import platform
from tests.jobs.support.runs import answer, blobs, container
from trainer.data.manifest import FILE_NAME, read_manifest


@pytest.fixture(scope="module")
def other(azure, tmp_path_factory):
    """A platform of another stack, in another region, on the same simulator."""
    here = platform(max_nodes=4)
    stores = {
        name: replace(
            store,
            account=f"{store.account[:-2]}we",
            blob_endpoint=store.blob_endpoint.replace(store.account, f"{store.account[:-2]}we"),
        )
        for name in ("raw", "prepared", "results")
        for store in [getattr(here.datastores, name)]
    }
    there = replace(
        here,
        stack="dev-west",
        region="northeurope",
        resource_group=f"{here.resource_group}-west",
        workspace=f"{here.workspace}-west",
        vault_uri="https://hvd-west-vault.vault.azure.net/",
        datastores=replace(here.datastores, **stores),
    )
    return declare(azure, tmp_path_factory.mktemp("other"), there)


def uploaded(live, folder, name, **options):
    """Register a data set in the first stack; return NAME:VERSION."""
    to = f"prepared/{name}"
    assert (
        upload.run(UploadOptions(folder=str(folder), to=to, **options), live.outputs, as_json=True)
        == 0
    )
    return f"{name}:{read_manifest(folder).version}"


def replicated(live, other, asset, **options):
    wanted = ReplicateOptions(asset=asset, to_outputs=str(other.file), **options)
    return command.run(wanted, live.outputs, as_json=True)


def test_a_data_set_arrives_with_its_hashes_and_is_registered_under_the_same_version(
    live, other, tmp_path, capsys
):
    folder = write_shards(tmp_path / "set")
    asset = uploaded(live, folder, "replica-pets")
    capsys.readouterr()
    assert replicated(live, other, asset) == 0
    done, found = answer(capsys), blobs(other, "prepared/replica-pets")
    assert (done["stack"], done["new_files"]) == ("dev-west", 5)
    assert {name: (blob.size, blob.md5, blob.xxh128) for name, blob in found.items()} == {
        name: (blob.size, blob.md5, blob.xxh128)
        for name, blob in blobs(live, "prepared/replica-pets").items()
    }
    registered = sdk(other).data.get(*asset.split(":"))
    assert registered.path.endswith("/datastores/training_data_prepared/paths/replica-pets")
    assert registered.tags["images"] == "40"
    # The same again copies and registers nothing.
    live.azure.admin.forget_requests()
    assert replicated(live, other, asset) == 0
    assert answer(capsys)["sent_bytes"] == 0
    assert not [r for r in live.azure.requests if r.method == "PUT"]


def test_an_interrupted_copy_continues_at_the_block_and_the_manifest_comes_last(
    live, other, tmp_path, capsys, monkeypatch
):
    folder = write_shards(tmp_path / "set", count=2, size=2 * BLOCK + 1)
    asset = uploaded(live, folder, "replica-large")
    capsys.readouterr()
    stage, staged = BlobUploader._stage, []

    def fails(uploader, blob, name, content):
        staged.append(name)
        if len(staged) > 2:
            raise KeyboardInterrupt
        stage(uploader, blob, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(BlobUploader, "_stage", fails)
        assert replicated(live, other, asset, threads=1) == 130
    assert "run the same command again" in capsys.readouterr().err
    assert FILE_NAME not in blobs(other, "prepared/replica-large")
    with pytest.raises(MissingError):
        connect(other.outputs).manager.get(f"data/replica-large/versions/{asset.partition(':')[2]}")
    assert replicated(live, other, asset) == 0
    whole = sum(blob.size for blob in blobs(live, "prepared/replica-large").values())
    assert answer(capsys)["sent_bytes"] == whole - 2 * BLOCK
    assert (
        blobs(other, "prepared/replica-large").keys()
        == blobs(live, "prepared/replica-large").keys()
    )


def test_a_shard_that_is_damaged_at_the_source_does_not_arrive(live, other, tmp_path, capsys):
    asset = uploaded(live, write_shards(tmp_path / "set"), "replica-damaged")
    shard = "train-00002.tfrecord"
    client = container(live, "prepared")
    client.upload_blob(f"replica-damaged/{shard}", os.urandom(20_000), overwrite=True)
    with pytest.raises(LocalError, match=f"{shard}: is damaged: its checksum is"):
        replicated(live, other, asset)
    assert not {shard, FILE_NAME} & set(blobs(other, "prepared/replica-damaged"))


def test_a_shard_that_changes_at_the_source_leaves_out_nothing_else(
    live, other, tmp_path, capsys, monkeypatch
):
    asset = uploaded(live, write_shards(tmp_path / "set"), "replica-changing")
    shard, run = "train-00002.tfrecord", FolderUpload.run

    def changed_first(upload, uploader):
        client = container(live, "prepared")
        client.upload_blob(f"replica-changing/{shard}", os.urandom(20_000), overwrite=True)
        run(upload, uploader)

    monkeypatch.setattr(FolderUpload, "run", changed_first)
    with pytest.raises(LocalError, match=f"{shard}: changed while it was copied"):
        replicated(live, other, asset, threads=1)
    names = set(blobs(live, "prepared/replica-changing"))
    assert set(blobs(other, "prepared/replica-changing")) == names - {shard, FILE_NAME}


def test_another_data_set_at_the_target_is_left_as_it_is(live, other, tmp_path, capsys):
    theirs = uploaded(other, write_shards(tmp_path / "theirs", seed=1), "replica-taken")
    asset = uploaded(live, write_shards(tmp_path / "ours", seed=2), "replica-taken")
    before = blobs(other, "prepared/replica-taken")
    with pytest.raises(ConflictError, match=f"is registered as data set {theirs}"):
        replicated(live, other, asset)
    # As well if it is not registered there.
    client = container(other, "prepared")
    for name in ("unknown/" + FILE_NAME,):
        client.upload_blob(name, (tmp_path / "theirs" / FILE_NAME).read_bytes())
    with pytest.raises(ConflictError, match="has another data set; choose another --folder"):
        replicated(live, other, asset, folder="unknown")
    assert blobs(other, "prepared/replica-taken") == before
    assert replicated(live, other, asset, folder="replica-taken-2") == 0


def test_what_cannot_be_copied_is_refused_before_anything_is(live, other, tmp_path, capsys):
    asset = uploaded(live, write_shards(tmp_path / "set"), "refused")
    itself = tmp_path / "itself.json"
    itself.write_text(json.dumps(to_dict(live.outputs)))
    with pytest.raises(ConfigError, match="have their training data in"):
        command.run(ReplicateOptions(asset, to_outputs=str(itself)), live.outputs, as_json=True)
    with pytest.raises(MissingError):
        replicated(live, other, "refused:0")
    with pytest.raises(ConfigError, match=r"(?s)must be NAME:VERSION.*give the stack to copy to"):
        ReplicateOptions(asset="refused").check(())
    assert blobs(other, "prepared/refused") == {}
