import hashlib
import json
import os
import signal
import subprocess
import sys

import pytest
from azure.storage.blob import ContentSettings

from common.errors import INTERRUPTED, ConfigError, UserError
from jobs.commands import download
from jobs.commands.download import DownloadOptions
from jobs.errors import MissingError
from jobs.transfer import blob_download
from jobs.transfer.blob_download import (
    LOCK,
    RECORD,
    DownloadRecord,
    alone,
)
from jobs.transfer.local_files import LocalError
from tests import ROOT
from tests.jobs.support.runs import answer, blobs, declare_job, put


def run_files(run, **more):
    folder = f"runs/{run}/{run}"
    return {
        f"{folder}/config.json": b"{}",
        f"{folder}/result.json": b'{"steps": 7}',
        f"{folder}/metrics.jsonl": b"one\ntwo\n",
        f"{folder}/export/saved_model/saved_model.pb": os.urandom(100_000),
        f"{folder}/checkpoints/step-7/model.safetensors": os.urandom(9 << 20),
        f"{folder}/.result.json.partial": b"{",
        **{f"{folder}/{name}": content for name, content in more.items()},
    }


def get(live, run, folder, **options):
    return download.run(
        DownloadOptions(name=run, to=str(folder), **options), live.outputs, as_json=True
    )


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_run_comes_without_its_checkpoints_and_scratch(live, tmp_path, capsys):
    files = run_files("plain")
    put(live, files)
    assert get(live, "plain", tmp_path / "plain") == 0
    assert answer(capsys)["new_files"] == 4
    assert names(tmp_path / "plain") == [
        RECORD,
        LOCK,
        "config.json",
        "export/saved_model/saved_model.pb",
        "metrics.jsonl",
        "result.json",
    ]
    model = "export/saved_model/saved_model.pb"
    assert (tmp_path / "plain" / model).read_bytes() == files[f"runs/plain/plain/{model}"]


def test_checkpoints_come_when_asked_for_and_the_rest_is_not_sent_again(live, tmp_path, capsys):
    files = run_files("full")
    put(live, files)
    get(live, "full", tmp_path / "full")
    capsys.readouterr()
    get(live, "full", tmp_path / "full", checkpoints=True)
    assert answer(capsys)["new_files"] == 1
    name = "checkpoints/step-7/model.safetensors"
    assert (tmp_path / "full" / name).read_bytes() == files[f"runs/full/full/{name}"]


def test_logs_and_outputs_of_all_attempts_come_with_it(live, tmp_path):
    put(live, run_files("tried"))
    artifacts = live.azure.blobs.container(live.outputs.datastores.results.account, "azureml")
    for number in (1, 2):
        declare_job(live, f"tried-r{number}", tags={"run": "tried"})
        log = f"ExperimentRun/dcid.tried-r{number}/outputs/tblogs/events"
        artifacts.upload_blob(log, f"{number}".encode(), overwrite=True)
    get(live, "tried-r1", tmp_path / "tried")
    for number in (1, 2):
        events = tmp_path / "tried" / "jobs" / f"tried-r{number}" / "outputs" / "tblogs" / "events"
        assert events.read_text() == str(number)


def test_what_has_grown_in_storage_is_fetched_again(live, tmp_path, capsys):
    put(live, run_files("grows"))
    get(live, "grows", tmp_path / "grows")
    put(live, {"runs/grows/grows/metrics.jsonl": b"one\ntwo\nthree\n"})
    capsys.readouterr()
    get(live, "grows", tmp_path / "grows")
    assert answer(capsys)["new_files"] == 1
    assert (tmp_path / "grows" / "metrics.jsonl").read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("downloaded_before", [False, True])
def test_a_persons_own_file_is_never_overwritten_silently(live, tmp_path, downloaded_before):
    put(live, run_files("mine"))
    folder = tmp_path / "mine"
    if downloaded_before:
        get(live, "mine", folder)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("my own notes")
    with pytest.raises(LocalError, match=r"config\.json: differs from the run's file"):
        get(live, "mine", folder)
    assert (folder / "config.json").read_text() == "my own notes"
    # The others came nevertheless.
    assert (folder / "result.json").is_file()
    get(live, "mine", folder, overwrite=True)
    assert (folder / "config.json").read_bytes() == b"{}"


def test_a_file_whose_record_was_lost_is_known_by_its_hash(live, tmp_path, capsys):
    put(live, run_files("lost"))
    get(live, "lost", tmp_path / "lost")
    (tmp_path / "lost" / RECORD).unlink()
    capsys.readouterr()
    assert get(live, "lost", tmp_path / "lost") == 0
    assert answer(capsys)["new_files"] == 0


def test_a_large_file_goes_on_where_it_was_interrupted(live, tmp_path, capsys, monkeypatch):
    files = run_files("cut")
    put(live, files)
    ranges, rest = [], blob_download._rest

    def counted(client, blob, offset):
        for part in rest(client, blob, offset):
            if blob.name.endswith("safetensors"):
                ranges.append(offset)
                if len(ranges) == 3:
                    raise KeyboardInterrupt
            yield part
            offset += len(part)

    monkeypatch.setattr(blob_download, "_rest", counted)
    folder = tmp_path / "cut"
    assert get(live, "cut", folder, checkpoints=True, threads=1) == INTERRUPTED
    assert "run the same command again to continue" in capsys.readouterr().err
    target = folder / "checkpoints" / "step-7" / "model.safetensors"
    assert not target.exists()
    get(live, "cut", folder, checkpoints=True)
    assert ranges == [0, 4 << 20, 8 << 20, 8 << 20]
    assert target.read_bytes() == files["runs/cut/cut/checkpoints/step-7/model.safetensors"]
    assert names(target.parent) == [target.name]


def test_a_blob_that_changes_while_it_is_read_is_read_anew(live, tmp_path, monkeypatch):
    put(live, run_files("alive", **{"log.txt": bytes(5 << 20)}))
    rest, changed = blob_download._rest, []
    later = os.urandom(6 << 20)

    def changing(client, blob, offset):
        for part in rest(client, blob, offset):
            yield part
            if blob.name == "log.txt" and not changed:
                changed.append(blob.name)
                client.upload_blob(later, overwrite=True)

    monkeypatch.setattr(blob_download, "_rest", changing)
    get(live, "alive", tmp_path / "alive")
    assert changed
    assert (tmp_path / "alive" / "log.txt").read_bytes() == later
    assert "log.txt" in names(tmp_path / "alive")
    assert not [name for name in names(tmp_path / "alive") if name.endswith(".partial")]


@pytest.mark.parametrize("size", [1_000, 5 << 20])
def test_a_damaged_blob_is_noticed(live, tmp_path, size):
    client = put(live, run_files("damaged", file=bytes(size)))
    blob = client.get_blob_client("runs/damaged/damaged/file")
    blob.set_http_headers(ContentSettings(content_md5=bytearray(16)))
    with pytest.raises(UserError, match=r"damaged/file: the MD5 of the download differs"):
        get(live, "damaged", tmp_path / "damaged")
    assert not (tmp_path / "damaged" / "file").exists()


KILLED_AT_THE_THIRD_FILE = """
import os, signal, sys
from jobs import cli
from jobs.transfer import blob_download

rest, files = blob_download._rest, []


def killing(client, blob, offset):
    files.append(blob.name)
    if len(files) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    yield from rest(client, blob, offset)


blob_download._rest = killing
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("damaged", [False, True])
def test_a_download_that_was_killed_knows_its_files_again(live, tmp_path, capsys, damaged):
    files = run_files("killed")
    client = put(live, files)
    for name in files:
        # As of blobs that were written in blocks by the trainer's mount.
        client.get_blob_client(name).set_http_headers(ContentSettings())
    folder = tmp_path / "killed"
    args = ["download", "killed", "--to", str(folder), "--threads", "1"]
    child = [sys.executable, "-c", KILLED_AT_THE_THIRD_FILE, *args]
    done = subprocess.run(child, env=live.environment, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    if damaged:
        with (folder / RECORD).open("a") as record:
            record.write('{"half a li')
    assert get(live, "killed", folder) == 0
    assert answer(capsys)["new_files"] == 2
    assert get(live, "killed", folder) == 0
    assert answer(capsys)["new_files"] == 0


def test_a_record_of_an_older_file_does_not_make_it_a_persons_own(tmp_path):
    target = tmp_path / "log.txt"
    target.write_text("old")
    record = DownloadRecord(tmp_path)
    record.add(target, target, "e1")
    # Killed before the new content got the name.
    (tmp_path / "new").write_text("content")
    record.add(target, tmp_path / "new", "e2")
    assert DownloadRecord(tmp_path).etag(target) == "e1"
    (tmp_path / "new").replace(target)
    assert DownloadRecord(tmp_path).etag(target) == "e2"
    target.write_text("mine")
    assert DownloadRecord(tmp_path).etag(target) is None


def test_a_record_of_an_earlier_version_is_read(tmp_path):
    target = tmp_path / "log.txt"
    target.write_text("old")
    stat = target.stat()
    state = {"etag": "e1", "size": 3, "modified_ns": stat.st_mtime_ns}
    (tmp_path / RECORD).write_text(
        f'{json.dumps({"log.txt": state, "other": state})}\n{{"half": {{"etag": '
    )
    record = DownloadRecord(tmp_path)
    assert record.etag(target) == "e1"
    (tmp_path / "more.txt").write_text("more")
    record.add(tmp_path / "more.txt", tmp_path / "more.txt", "e3")
    again = DownloadRecord(tmp_path)
    assert [again.etag(tmp_path / name) for name in ("log.txt", "more.txt")] == ["e1", "e3"]


def test_a_full_disk_is_told_with_the_file_and_what_to_do(live, tmp_path):
    put(live, run_files("fat"))
    folder = tmp_path / "fat"
    folder.mkdir()
    blob = blobs(live, "results/runs/fat/fat")["metrics.jsonl"]
    version = hashlib.sha256(blob.etag.encode()).hexdigest()[:8]
    (folder / f".metrics.jsonl.{version}.partial").symlink_to("/dev/full")
    with pytest.raises(LocalError, match=r"metrics\.jsonl: cannot be written, as the disk is full"):
        get(live, "fat", folder)


def test_a_blob_that_always_changes_does_not_end_the_others(live, tmp_path, monkeypatch):
    files = run_files("busy", **{"a-log.txt": bytes(5 << 20)})
    put(live, files)
    rest = blob_download._rest

    def changing(client, blob, offset):
        for part in rest(client, blob, offset):
            if blob.name == "a-log.txt":
                client.upload_blob(os.urandom(5 << 20), overwrite=True)
            yield part

    monkeypatch.setattr(blob_download, "_rest", changing)
    with pytest.raises(LocalError, match=r"busy/a-log\.txt: changed 5 times during the download"):
        get(live, "busy", tmp_path / "busy", threads=1)
    assert (tmp_path / "busy" / "result.json").read_bytes() == b'{"steps": 7}'
    assert (tmp_path / "busy" / "export" / "saved_model" / "saved_model.pb").is_file()


def test_a_blob_that_is_deleted_meanwhile_does_not_end_the_others(live, tmp_path, monkeypatch):
    client, rest = put(live, run_files("shrinks")), blob_download._rest

    def deleting(blob_client, blob, offset):
        if blob.name == "config.json":
            client.delete_blob(blob_client.blob_name)
        yield from rest(blob_client, blob, offset)

    monkeypatch.setattr(blob_download, "_rest", deleting)
    with pytest.raises(LocalError, match=r"shrinks/config\.json: was deleted during the download"):
        get(live, "shrinks", tmp_path / "shrinks", threads=1)
    assert get(live, "shrinks", tmp_path / "shrinks") == 0


def test_two_downloads_into_one_folder_are_refused(live, tmp_path):
    put(live, run_files("both"))
    folder = tmp_path / "both"
    with (
        alone(folder),
        pytest.raises(LocalError, match="both: another download is writing to this"),
    ):
        get(live, "both", folder)
    assert names(folder) == [LOCK]
    assert get(live, "both", folder) == 0


@pytest.mark.parametrize(
    ("written", "fine"), [(lambda content: content[:-1], True), (lambda content: content, False)]
)
def test_what_someone_else_writes_does_not_end_up_in_a_file(
    live, tmp_path, monkeypatch, written, fine
):
    files = run_files("shared", **{"log.txt": os.urandom(5 << 20)})
    put(live, files)
    content = files["runs/shared/shared/log.txt"]
    folder, rest = tmp_path / "shared", blob_download._rest

    def beside(client, blob, offset):
        for part in rest(client, blob, offset):
            if blob.name == "log.txt":
                # As a second process would that is ahead; one that does not stop is noticed.
                (partial,) = folder.glob(".log.txt.*.partial")
                with partial.open("r+b") as file:
                    file.write(written(content) + b"!" * (not fine))
            yield part

    monkeypatch.setattr(blob_download, "_rest", beside)
    if fine:
        assert get(live, "shared", folder) == 0
        assert (folder / "log.txt").read_bytes() == content
    else:
        with pytest.raises(UserError, match="bytes were written, but the blob has 5242880"):
            get(live, "shared", folder)
        assert not (folder / "log.txt").exists()


def test_a_run_that_left_nothing_is_told(live, tmp_path):
    with pytest.raises(MissingError, match="run nobody: has no files"):
        get(live, "nobody", tmp_path)


def test_a_name_that_is_no_runs_is_refused(live, tmp_path):
    with pytest.raises(ConfigError, match="at most 100 letters"):
        get(live, "../up", tmp_path)
