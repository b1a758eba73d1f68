"""An image gets a new version if its build context changes, and only then."""

import json
import re

import pytest

from jobs.errors import SnapshotError
from jobs.options import ASSET
from jobs.spec.build_context import LOCK, TREATMENT, build_context
from tests import ROOT


@pytest.fixture
def repository(tmp_path):
    for image in ("gpu", "cpu"):
        folder = tmp_path / "environments" / image
        folder.mkdir(parents=True)
        (folder / "Dockerfile").write_text(f"FROM {image}\n")
        (folder / "README.md").write_text("notes\n")
        (tmp_path / "locks").mkdir(exist_ok=True)
        (tmp_path / "locks" / f"{image}.txt").write_text("numpy==2.0.2\n")
    return tmp_path


def version(repository, image="gpu"):
    return build_context(repository, image).version


def test_notes_and_caches_are_no_change(repository):
    before = version(repository)
    folder = repository / "environments" / "gpu"
    (folder / "README.md").write_text("other notes\n")
    (folder / ".swp").write_text("x")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("x")
    (repository / "environments" / "cpu" / "Dockerfile").write_text("FROM other\n")
    assert version(repository) == before


@pytest.mark.parametrize(
    "file",
    [
        *("environments/gpu/Dockerfile", "locks/gpu.txt", "environments/gpu/new/file"),
        "environments/shared/file",
    ],
)
def test_what_the_build_reads_is_a_change(repository, file):
    before = version(repository)
    (repository / file).parent.mkdir(exist_ok=True)
    (repository / file).write_text("changed\n")
    assert version(repository) != before


def test_the_context_is_written_with_its_lock_and_without_notes(repository, tmp_path):
    build_context(repository, "gpu").write(tmp_path / "context")
    found = {p.name: p.read_text() for p in (tmp_path / "context").iterdir()}
    assert found == {"Dockerfile": "FROM gpu\n", LOCK: "numpy==2.0.2\n"}


def test_a_file_of_its_own_replaces_a_shared_one(repository):
    (repository / "environments" / "shared").mkdir()
    for folder in ("shared", "cpu"):
        (repository / "environments" / folder / "hosts").write_text(folder)
    contents = {image: build_context(repository, image).contents for image in ("cpu", "gpu")}
    assert (contents["cpu"]["hosts"], contents["gpu"]["hosts"]) == (b"cpu", b"shared")


def test_the_reference_is_one_that_a_job_can_name(repository):
    context = build_context(repository, "cpu")
    assert re.fullmatch(ASSET, context.reference)
    assert context.reference == f"trainer-cpu:{version(repository, 'cpu')}"


@pytest.mark.parametrize("file", ["environments/gpu/Dockerfile", "locks/gpu.txt"])
def test_a_missing_part_is_named(repository, file):
    (repository / file).unlink()
    with pytest.raises(SnapshotError, match=f"{file}: is missing"):
        build_context(repository, "gpu")


def test_a_second_lock_is_refused(repository):
    (repository / "environments" / "gpu" / LOCK).write_text("numpy==1.0\n")
    with pytest.raises(SnapshotError, match=r"must not exist.*delete it"):
        build_context(repository, "gpu")


def test_the_image_of_endpoints_has_the_scoring_script_and_nothing_of_jobs():
    contents = build_context(ROOT, "serving").contents
    served = {
        "score.py",
        "batching.py",
        "openapi.py",
        "segmentation.py",
        "detection.py",
        "multilabel.py",
        "page.html",
        "access_log.py",
        "logging.json",
    }
    assert set(contents) == {"Dockerfile", LOCK, TREATMENT, *served}
    assert contents[TREATMENT] == (ROOT / TREATMENT).read_bytes()
    assert contents["score.py"] == (ROOT / "serving" / "score.py").read_bytes()
    assert contents[LOCK] == (ROOT / "locks" / "serving.txt").read_bytes()


def test_the_server_of_an_image_is_the_one_that_runs_here():
    dockerfile = build_context(ROOT, "serving").contents["Dockerfile"].decode()
    (command,) = re.findall(r"^CMD (.*)$", dockerfile, re.MULTILINE)
    script = (ROOT / "trainer" / "scoring" / "server.py").read_text()
    for part in json.loads(command):
        if part.startswith(("--", "azureml")):
            assert f'"{part}"' in script, part
