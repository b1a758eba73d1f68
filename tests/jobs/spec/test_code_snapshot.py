"""What is uploaded as a job's code."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SnapshotError
from jobs.spec.code_snapshot import digest, stage
from tests import ROOT


@pytest.fixture
def repository(tmp_path):
    package = tmp_path / "repository" / "trainer"
    (tmp_path / "repository" / "common").mkdir(parents=True)
    (package / "report" / "__pycache__").mkdir(parents=True)
    for name in (
        "__init__.py", "cli.py", "report/style.css", "report/__pycache__/a.pyc", "old.pyc",
        ".secret", "../common/__init__.py", "../Pulumi.dev.yaml", "../README.md",
    ):  # fmt: skip
        (package / name).write_text(name)
    return tmp_path / "repository"


def test_the_packages_and_nothing_else_are_staged(repository, tmp_path):
    staged = stage(repository, tmp_path / "code")
    assert staged.files == (
        *("common/__init__.py", "trainer/__init__.py", "trainer/cli.py"),
        "trainer/report/style.css",
    )
    found = {p.relative_to(staged.path).as_posix() for p in staged.path.rglob("*") if p.is_file()}
    assert found == set(staged.files)


def test_the_digest_is_of_names_and_contents_only(repository, tmp_path):
    first = stage(repository, tmp_path / "one").digest
    os.utime(repository / "trainer" / "cli.py", (0, 0))
    (repository / "trainer" / "new.pyc").write_text("compiled")
    (repository / "README.md").write_text("changed")
    assert stage(repository, tmp_path / "two").digest == first
    (repository / "trainer" / "cli.py").write_text("changed")
    assert stage(repository, tmp_path / "three").digest != first


def test_a_link_is_refused(repository, tmp_path):
    (repository / "trainer" / "keys").symlink_to("/etc")
    with pytest.raises(SnapshotError, match="keys: is a link"):
        stage(repository, tmp_path / "code")


def test_a_folder_that_holds_something_is_left_alone(repository, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine").write_text("x")
    with pytest.raises(SnapshotError, match="not empty"):
        stage(repository, tmp_path / "code")
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["mine"]


def test_another_folder_is_no_repository(tmp_path):
    with pytest.raises(SnapshotError, match="run this in the repository"):
        stage(tmp_path, tmp_path / "code")


def test_the_staged_package_starts_without_the_repository(tmp_path):
    staged = stage(ROOT, tmp_path / "code")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c",
         f"import sys; sys.path.insert(0, {str(staged.path)!r}); import trainer.config as c;"
         "print(c.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(staged.path / "trainer" / "config.py")


contents = st.dictionaries(st.text(min_size=1), st.binary(), max_size=4)


@given(contents, contents)
def test_two_sets_of_files_have_one_digest_only_if_they_are_equal(one, other):
    assert (digest(one) == digest(other)) == (one == other)


def test_bytes_do_not_wander_between_names_and_files():
    assert digest({"a": b"", "bc": b""}) != digest({"a": b"bc"})
    assert digest({"a": b"x", "b": b"y"}) != digest({"a": b"xby"})
