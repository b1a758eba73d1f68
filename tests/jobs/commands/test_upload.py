import json
import os
import signal
import threading
from dataclasses import replace

import pytest
from azure.storage.blob import BlobClient, ContentSettings

from common.errors import INTERRUPTED, ConfigError
from common.waiting import wait_until
from jobs.commands import upload
from jobs.commands.upload import UploadOptions
from jobs.console import Console
from jobs.errors import AccessError, ConflictError, MissingError, RequestError
from jobs.retry import StorageRetry
from jobs.transfer import blob_upload
from jobs.transfer.blob_upload import BlobUploader
from jobs.transfer.local_files import LocalError
from jobs.transfer.progress import Progress
from tests.jobs.support.folders import content, write_files, write_shards
from tests.jobs.support.live import sdk
from tests.jobs.support.runs import answer, blobs, container
from trainer.data.manifest import FILE_NAME, read_manifest

MANY, SIZE = 600, 65_536


def send_folder(live, folder, to, **options):
    return upload.run(
        UploadOptions(folder=str(folder), to=to, **options), live.outputs, as_json=True
    )


def child(live):
    """Return the environment of a command."""
    path = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {**live.environment, **path}


def data_requests(live, method):
    return [r for r in live.azure.requests if r.method == method and "/data/" in r.path]


@pytest.fixture
def interrupted(monkeypatch):
    """Send Ctrl-C during the nth call of a method, which continues once it was handled."""

    def at(owner, name, number):
        before, lock, calls = getattr(owner, name), threading.Lock(), []
        interrupt, heard = StorageRetry.interrupt, threading.Event()

        def hears(retry):
            interrupt(retry)
            heard.set()

        def called(*args, **kwargs):
            with lock:
                calls.append(name)
                count = len(calls)
            if count == number:
                os.kill(os.getpid(), signal.SIGINT)
            if count >= number:
                assert heard.wait(120)
            return before(*args, **kwargs)

        monkeypatch.setattr(StorageRetry, "interrupt", hears)
        monkeypatch.setattr(owner, name, called)

    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield at
    signal.signal(signal.SIGINT, was)


def test_shards_arrive_whole_with_their_hashes_and_are_registered(live, tmp_path, capsys):
    folder = write_shards(tmp_path / "set")
    assert send_folder(live, folder, "prepared/whole") == 0
    done, found = answer(capsys), blobs(live, "prepared/whole")
    manifest = read_manifest(folder)
    assert done["asset"] == f"whole:{manifest.version}"
    assert sorted(found) == sorted(path.name for path in folder.iterdir())
    for shard in manifest.splits["train"].shards:
        assert found[shard.file].xxh128 == shard.xxh128
        assert found[shard.file].size == shard.bytes
    asset = sdk(live).data.get("whole", manifest.version)
    assert asset.type == "uri_folder"
    assert asset.path.endswith("/datastores/training_data_prepared/paths/whole")
    assert asset.tags["images"] == "40"
    assert asset.tags["classes"] == "2"
    assert len(asset.tags["manifest"]) == 64


def test_the_same_again_sends_nothing_and_registers_nothing(live, tmp_path, capsys):
    folder = write_shards(tmp_path / "set")
    send_folder(live, folder, "prepared/again")
    live.azure.admin.forget_requests()
    capsys.readouterr()
    send_folder(live, folder, "prepared/again")
    done = answer(capsys)
    assert (done["new_files"], done["sent_bytes"]) == (0, 0)
    assert data_requests(live, "PUT") == []


def test_after_ctrl_c_the_same_command_sends_only_the_rest(live, tmp_path, capsys, interrupted):
    folder = write_files(tmp_path / "set", 300, 1_000)
    interrupted(BlobUploader, "_put", 100)
    assert send_folder(live, folder, "raw/stopped", threads=4) == INTERRUPTED
    said = capsys.readouterr()
    assert "run the same command again to send the rest" in said.err
    before = len(blobs(live, "raw/stopped"))
    # Files under way may have been stopped before they were sent.
    assert 90 <= before <= 99
    assert data_requests(live, "PUT") == []
    assert send_folder(live, folder, "raw/stopped", threads=4) == 0
    assert answer(capsys)["new_files"] == 300 - before
    assert len(blobs(live, "raw/stopped")) == 300


def test_a_large_file_goes_on_at_the_block_where_it_was_interrupted(
    live, tmp_path, capsys, interrupted, monkeypatch
):
    monkeypatch.setattr(blob_upload, "BLOCK", 1 << 20)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "archive.tar").write_bytes(os.urandom(20 << 20))
    interrupted(BlobUploader, "_stage", 10)
    assert send_folder(live, folder, "raw/archive", threads=2) == INTERRUPTED
    assert blobs(live, "raw/archive") == {}
    capsys.readouterr()
    assert send_folder(live, folder, "raw/archive", threads=2) == 0
    sent = answer(capsys)["sent_bytes"]
    assert 11 << 20 <= sent <= 14 << 20
    assert blobs(live, "raw/archive")["archive.tar"].size == 20 << 20


def test_blocks_that_storage_has_lost_are_sent_again(live, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(blob_upload, "BLOCK", 1 << 20)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "archive.tar").write_bytes(os.urandom(5 << 20))
    stage, lost = BlobClient.stage_block, []

    def losing(client, name, *args, **options):
        if name.startswith("00002-") and not lost:
            lost.append(name)
        else:
            stage(client, name, *args, **options)

    monkeypatch.setattr(BlobClient, "stage_block", losing)
    assert send_folder(live, folder, "raw/lost") == 0
    done = answer(capsys)
    assert (done["new_files"], done["sent_bytes"]) == (1, 6 << 20)
    assert blobs(live, "raw/lost")["archive.tar"].size == 5 << 20


def test_blocks_that_storage_refuses_each_time_are_read_three_times_and_reported_as_it_says(
    live, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(blob_upload, "BLOCK", 1 << 20)
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "archive.tar").write_bytes(os.urandom(3 << 20))
    says = {"code": "InvalidBlockList", "message": "The specified block list is invalid."}
    live.azure.admin.fault("PUT .*comp=blocklist", status=400, times=None, **says)
    live.azure.admin.forget_requests()
    with pytest.raises(RequestError) as error:
        send_folder(live, folder, "raw/refused")
    assert str(error.value).startswith(
        "refused/archive.tar: storage refused its blocks 3 times (InvalidBlockList: The specified"
        " block list is invalid.); check whether"
    )
    assert "stopped: 0 of 1 file and " in capsys.readouterr().err
    sent = [request.query for request in live.azure.requests if request.method == "PUT"]
    assert sum("comp=blocklist" in query for query in sent) == 3
    assert blobs(live, "raw/refused") == {}


def test_a_file_that_changes_underneath_leaves_the_set_incomplete(live, tmp_path, monkeypatch):
    folder = write_shards(tmp_path / "set")
    victim = folder / "train-00002.tfrecord"
    read = upload.read_data_set

    def changing(place):
        found = read(place)
        victim.write_bytes(content(77, victim.stat().st_size))
        return found

    monkeypatch.setattr(upload, "read_data_set", changing)
    with pytest.raises(LocalError, match=r"train-00002\.tfrecord: changed during the upload"):
        send_folder(live, folder, "prepared/changing")
    found = blobs(live, "prepared/changing")
    assert victim.name not in found
    assert FILE_NAME not in found
    assert data_requests(live, "PUT") == []


def test_damaged_shards_are_all_named_and_no_manifest_is_sent(live, tmp_path):
    folder = write_shards(tmp_path / "set")
    for name in ("train-00001.tfrecord", "train-00003.tfrecord"):
        data = bytearray((folder / name).read_bytes())
        data[500] ^= 1
        (folder / name).write_bytes(data)
    with pytest.raises(LocalError, match="is damaged") as error:
        send_folder(live, folder, "prepared/damaged")
    assert "train-00001.tfrecord" in str(error.value)
    assert "train-00003.tfrecord" in str(error.value)
    assert sorted(blobs(live, "prepared/damaged")) == [
        "train-00000.tfrecord",
        "train-00002.tfrecord",
    ]


def test_a_set_that_does_not_fit_its_manifest_is_refused_before_sending(live, tmp_path):
    folder = write_shards(tmp_path / "set")
    (folder / "train-00001.tfrecord").unlink()
    with pytest.raises(LocalError, match=r"train-00001.tfrecord: missing"):
        send_folder(live, folder, "prepared/unfit")
    assert blobs(live, "prepared/unfit") == {}


def test_another_version_in_the_folder_of_one_is_refused(live, tmp_path):
    send_folder(live, write_shards(tmp_path / "one"), "prepared/taken")
    other = write_shards(tmp_path / "two", seed=1)
    with pytest.raises(
        ConflictError, match=r"taken: is registered as data set taken:.*another folder"
    ):
        send_folder(live, other, "prepared/taken", overwrite=True)


def test_a_version_in_another_folder_is_refused(live, tmp_path):
    folder = write_shards(tmp_path / "one")
    send_folder(live, folder, "prepared/here", name="moved")
    with pytest.raises(ConflictError, match="is already registered at"):
        send_folder(live, folder, "prepared/there", name="moved")
    assert blobs(live, "prepared/there") == {}


def test_files_that_the_local_folder_does_not_have_are_refused(live, tmp_path):
    send_folder(live, write_files(tmp_path / "one", 3, 10), "raw/mixed", register=False)
    (tmp_path / "one" / "file-00001.bin").unlink()
    with pytest.raises(LocalError, match=r"contains 1 file that .* such as file-00001.bin"):
        send_folder(live, tmp_path / "one", "raw/mixed", register=False)


def test_raw_files_with_other_content_need_to_be_asked_for(live, tmp_path, capsys):
    folder = write_files(tmp_path / "one", 3, 10)
    send_folder(live, folder, "raw/changed", register=False)
    (folder / "file-00001.bin").write_bytes(b"0123456789")
    with pytest.raises(LocalError, match=r"file-00001.bin.*--overwrite True"):
        send_folder(live, folder, "raw/changed", register=False)
    capsys.readouterr()
    send_folder(live, folder, "raw/changed", register=False, overwrite=True)
    assert answer(capsys)["new_files"] == 1
    send_folder(live, folder, "raw/changed", register=False)
    assert answer(capsys)["new_files"] == 0


def test_a_file_that_another_program_sent_without_a_hash_is_not_trusted(live, tmp_path):
    folder = write_files(tmp_path / "one", 1, 10)
    client = container(live, "raw")
    blob = client.upload_blob("foreign/file-00000.bin", bytes(10))
    blob.set_http_headers(ContentSettings())
    with pytest.raises(
        LocalError, match="already exists in foreign, without a hash to compare with"
    ):
        send_folder(live, folder, "raw/foreign")
    send_folder(live, folder, "raw/foreign", overwrite=True)
    assert client.download_blob("foreign/file-00000.bin").readall() == content(0, 10)


def test_a_workspace_that_is_not_there_is_told_before_sending(live, tmp_path):
    outputs = replace(live.outputs, workspace="elsewhere")
    folder = str(write_shards(tmp_path / "set"))
    with pytest.raises(MissingError, match="workspace elsewhere"):
        upload.run(UploadOptions(folder=folder, to="prepared/nowhere"), outputs, as_json=True)
    assert blobs(live, "prepared/nowhere") == {}


def test_two_who_send_the_same_at_once_do_not_disturb_each_other(live, tmp_path, monkeypatch):
    monkeypatch.setattr(blob_upload, "BLOCK", 1 << 20)
    folder = write_files(tmp_path / "set", 40, 1_000)
    (folder / "archive.tar").write_bytes(os.urandom(8 << 20))
    ended = []

    def sending():
        ended.append(send_folder(live, folder, "raw/both", threads=4))

    others = [threading.Thread(target=sending) for _ in range(2)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    assert ended == [0, 0]
    assert len(blobs(live, "raw/both")) == 41


def test_a_registered_raw_folder_is_never_changed(live, tmp_path):
    folder = write_files(tmp_path / "one", 3, 10)
    send_folder(live, folder, "raw/closed")
    before = blobs(live, "raw/closed")
    (folder / "file-00001.bin").write_bytes(b"0123456789")
    for register in (True, False):
        with pytest.raises(ConflictError, match="whose content must not change"):
            send_folder(live, folder, "raw/closed", overwrite=True, register=register)
    (folder / "file-00001.bin").write_bytes(content(1, 10))
    (folder / "more.bin").write_bytes(b"")
    with pytest.raises(ConflictError, match="whose content must not change"):
        send_folder(live, folder, "raw/closed")
    assert blobs(live, "raw/closed") == before


def test_odd_names_and_empty_files_arrive_and_hidden_ones_stay(live, tmp_path, capsys):
    folder = tmp_path / "set"
    names = ["a b/ö 100%?#&+.bin", "empty", "=('quoted').txt", "deep/er/file"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"" if name == "empty" else name.encode())
    (folder / ".hidden").write_bytes(b"x")
    (folder / "void").mkdir()
    send_folder(live, folder, "raw/odd")
    said = capsys.readouterr().err
    assert "skipped: 1 hidden file, such as .hidden" in said
    assert "skipped: 1 empty folder, such as void" in said
    found = blobs(live, "raw/odd")
    assert sorted(found) == sorted(names)
    assert found["empty"].size == 0


def test_one_archive_can_be_sent(live, tmp_path):
    archive = tmp_path / "train.tar"
    archive.write_bytes(b"tar")
    send_folder(live, archive, "raw/one-archive")
    assert list(blobs(live, "raw/one-archive")) == ["train.tar"]


def test_a_dry_run_tells_what_would_be_sent_and_sends_nothing(live, tmp_path, capsys):
    folder = write_shards(tmp_path / "set")
    send_folder(live, folder, "prepared/dry", dry_run=True)
    assert len(answer(capsys)["would"]["send"]) == 5
    assert blobs(live, "prepared/dry") == {}
    send_folder(live, folder, "prepared/dry")
    capsys.readouterr()
    send_folder(live, folder, "prepared/dry", dry_run=True)
    would = answer(capsys)["would"]
    assert len(would["keep"]) == 4
    assert would["compare"] == [FILE_NAME]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AuthorizationPermissionMismatch", r"Storage Blob Data Contributor.*people\.publishers"),
        ("AuthorizationFailure", "is private"),
    ],
)
def test_storage_that_refuses_names_what_is_needed(live, tmp_path, code, words):
    folder = write_shards(tmp_path / "set")
    account = live.outputs.datastores.prepared.account
    live.azure.admin.fault(f"PUT /{account}/prepared/refused", status=403, code=code, times=None)
    with pytest.raises(AccessError, match=words) as error:
        send_folder(live, folder, "prepared/refused")
    assert f"container prepared of {account}" in str(error.value)
    assert data_requests(live, "PUT") == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"folder": "x", "to": "raw"}, "must be DATASTORE/PATH"),
        ({"folder": "x", "to": "raw/../up"}, "must be DATASTORE/PATH"),
        ({"folder": "x", "to": "attic/x"}, "unknown datastore 'attic'; choose from raw, prepared"),
        ({"folder": "x", "to": "raw/a.b"}, "--name: 'a.b'"),
    ],
)
def test_wrong_options_are_refused_with_what_to_say(live, values, words):
    with pytest.raises(ConfigError, match=words):
        upload.run(UploadOptions(**values), live.outputs, as_json=True)


@pytest.mark.slow
def test_a_blob_server_that_is_killed_and_comes_back_costs_only_time(
    live, tmp_path, capsys, monkeypatch
):
    folder = write_files(tmp_path / "set", MANY, SIZE)
    (folder / "archive.tar").write_bytes(os.urandom(24 << 20))
    azurite = live.azure.azurite
    # The server writes down its contents every few seconds; a container is older than its files.
    written = live.azure.folder / "blobs" / "__azurite_db_blob__.json"
    assert wait_until(lambda: written.exists() and '"raw"' in written.read_text(), 600)
    half, killed, told = (threading.Event() for _ in range(3))
    file, note = Progress.file, Console.note

    def counting(progress):
        file(progress)
        # Several threads count, so none need see the very number.
        if progress.total_files >= MANY // 2:
            half.set()
            killed.wait()

    def noting(console, text):
        note(console, text)
        if "storage does not respond" in text:
            told.set()

    def outage():
        half.wait()
        azurite.crash()
        killed.set()
        # It stays away until someone has waited for it.
        told.wait()
        azurite.start()

    monkeypatch.setattr(Progress, "file", counting)
    monkeypatch.setattr(Console, "note", noting)
    killer = threading.Thread(target=outage)
    killer.start()
    try:
        assert send_folder(live, folder, "raw/outage") == 0
    finally:
        for event in (half, killed, told):
            event.set()
        killer.join()
    said = capsys.readouterr()
    assert "storage does not respond" in said.err
    assert "storage responds again" in said.err
    assert json.loads(said.out)["bytes"] == MANY * SIZE + (24 << 20)
    found = blobs(live, "raw/outage")
    assert len(found) == MANY + 1
    assert {blob.size for name, blob in found.items() if name != "archive.tar"} == {SIZE}
    assert data_requests(live, "PUT")
