"""The files that are uploaded as a job's code."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SnapshotError
from jobs.spec.code_snapshot import digest, git_properties, read_snapshot
from tests import ROOT


@pytest.fixture
def repository(tmp_path):
    package = tmp_path / "repository" / "trainer"
    (tmp_path / "repository" / "common").mkdir(parents=True)
    (package / "report" / "__pycache__").mkdir(parents=True)
    (package / "report" / "templates").mkdir()
    for name in (
        "__init__.py", "cli.py", "report/templates/run.html", "report/__pycache__/a.pyc", "old.pyc",
        ".secret", "../common/__init__.py", "../Pulumi.dev.yaml", "../README.md",
        "report/README.md",
    ):  # fmt: skip
        (package / name).write_text(name)
    return tmp_path / "repository"


def test_the_packages_and_nothing_else_are_in_it(repository, tmp_path):
    code, folder = read_snapshot(repository), tmp_path / "code"
    assert list(code.contents) == [
        *("common/__init__.py", "trainer/__init__.py", "trainer/cli.py"),
        "trainer/report/templates/run.html",
    ]
    code.write(folder)
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert written == set(code.contents)


def test_the_templates_of_the_pages_are_in_it():
    written = set(read_snapshot(ROOT).contents)
    for package in ("common/page", "trainer/report"):
        templates = list((ROOT / package / "templates").iterdir())
        assert templates
        assert {path.relative_to(ROOT).as_posix() for path in templates} <= written


def test_the_digest_is_of_names_and_contents_only(repository):
    first = read_snapshot(repository).digest
    os.utime(repository / "trainer" / "cli.py", (0, 0))
    (repository / "trainer" / "new.pyc").write_text("compiled")
    (repository / "README.md").write_text("changed")
    assert read_snapshot(repository).digest == first
    (repository / "trainer" / "cli.py").write_text("changed")
    assert read_snapshot(repository).digest != first


def put(repository, *names):
    for name in names:
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_the_python_files_of_a_builders_package_are_in_it(repository):
    put(repository, *("mine/__init__.py", "mine/nets/small.py", "mine/parts.py", "mine/data.csv"))
    put(repository, "other/__init__.py")
    before = read_snapshot(repository)
    code = read_snapshot(repository, "mine.nets.small:build")
    assert set(code.contents) - set(before.contents) == {
        *("mine/__init__.py", "mine/nets/small.py", "mine/parts.py"),
    }
    assert code.digest != before.digest


def test_a_builder_may_be_a_single_module_or_a_packages_own(repository):
    put(repository, "small.py", "mine/__init__.py")
    before = set(read_snapshot(repository).contents)
    assert set(read_snapshot(repository, "small:build").contents) - before == {"small.py"}
    assert set(read_snapshot(repository, "mine:build").contents) - before == {"mine/__init__.py"}


@pytest.mark.parametrize("builder", ["none:build", "mine.none:build"])
def test_a_builder_that_does_not_exist_is_refused(repository, builder):
    put(repository, "mine/__init__.py")
    with pytest.raises(
        SnapshotError, match=f"--model.builder: {builder}: .*none.py does not exist"
    ):
        read_snapshot(repository, builder)


def test_a_link_is_refused(repository):
    (repository / "trainer" / "keys").symlink_to("/etc")
    with pytest.raises(SnapshotError, match="keys: is a symbolic link"):
        read_snapshot(repository)


def test_a_folder_that_holds_something_is_left_alone(repository, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine").write_text("x")
    with pytest.raises(SnapshotError, match="not empty"):
        read_snapshot(repository).write(tmp_path / "code")
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["mine"]


def test_another_folder_is_no_repository(tmp_path):
    with pytest.raises(SnapshotError, match="run this in the repository"):
        read_snapshot(tmp_path)


def test_the_written_package_starts_without_the_repository(tmp_path):
    folder = tmp_path / "code"
    read_snapshot(ROOT).write(folder)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c",
         f"import sys; sys.path.insert(0, {str(folder)!r}); import trainer.config as c;"
         "print(c.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(folder / "trainer" / "config.py")


contents = st.dictionaries(st.text(min_size=1), st.binary(), max_size=4)


@given(contents, contents)
def test_two_sets_of_files_have_one_digest_only_if_they_are_equal(one, other):
    assert (digest(one) == digest(other)) == (one == other)


def test_bytes_do_not_wander_between_names_and_files():
    assert digest({"a": b"", "bc": b""}) != digest({"a": b"bc"})
    assert digest({"a": b"x", "b": b"y"}) != digest({"a": b"xby"})


def commit_all(repository):
    def git(*words):
        subprocess.run(["git", *words], cwd=repository, check=True)

    git("init", "--quiet", "--initial-branch", "main")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "--message", "first")
    return git


def test_git_tells_commit_branch_and_changes(repository):
    assert git_properties(repository) == {}
    git = commit_all(repository)
    git("remote", "add", "origin", "git@example.com:team/project")
    properties = git_properties(repository)
    assert len(properties.pop("mlflow.source.git.commit")) == 40
    assert properties == {
        "mlflow.source.git.branch": "main",
        "mlflow.source.git.repoURL": "git@example.com:team/project",
        "azureml.git.dirty": "False",
    }
    (repository / "new").touch()
    assert git_properties(repository)["azureml.git.dirty"] == "True"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:hunter2@example.com/team/project", "https://example.com/team/project"),
        ("https://ghp_hunter2@github.com/team/project.git", "https://github.com/team/project.git"),
        ("https://hunter2@dev.azure.com:443/team/_git/p", "https://dev.azure.com:443/team/_git/p"),
        ("https://a@hunter2@example.com/p", "https://example.com/p"),
        ("https://example.com/p.git?access_token=hunter2", "https://example.com/p.git"),
        ("https://example.com/p.git#hunter2", "https://example.com/p.git"),
        ("https://example.com?hunter2", "https://example.com"),
        ("https://example.com/a/hunter2@b", None),
        ("https://[hunter2/p", None),
        ("HTTPS://hunter2@example.com/p", "HTTPS://example.com/p"),
        ("ssh://git@example.com:22/team/p", "ssh://git@example.com:22/team/p"),
        ("ssh://hunter2@example.com/team/p", "ssh://example.com/team/p"),
        ("git@example.com:team/project", "git@example.com:team/project"),
        ("oauth2:hunter2@example.com:team/p", "example.com:team/p"),
        ("../project", "../project"),
    ],
)
def test_an_address_is_shown_without_what_may_be_a_secret(repository, address, shown):
    git = commit_all(repository)
    git("remote", "add", "origin", address)
    properties = git_properties(repository)
    assert "mlflow.source.git.commit" in properties
    assert properties.get("mlflow.source.git.repoURL") == shown
    assert "hunter2" not in str(properties)
