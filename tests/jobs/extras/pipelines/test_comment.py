"""A preview becomes one comment of a pull request, which the next preview replaces."""

import pytest

from common.errors import UserError
from jobs.cli import main
from jobs.errors import RequestError
from jobs.pulumi import changes
from tests.jobs.support.github import github

__all__ = ["github"]

COMMENT = ("comment", "--pull-request", "7")


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "preview.md"
    file.write_text(changes.preview_markdown("dev", []))
    return file


@pytest.fixture
def job(github, monkeypatch):
    """Variables of a job of a workflow."""
    for name, value in github.environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("job")
def test_a_further_preview_replaces_the_comment_of_its_stack(github, page, capsys):
    github.comments |= {number: f"a remark of somebody {number}" for number in range(1, 121)}
    assert main([*COMMENT, str(page)]) == 0
    assert "pull/7#issuecomment-121" in capsys.readouterr().out
    page.write_text(page.read_text() + "changed\n")
    assert main([*COMMENT, str(page)]) == 0
    assert len(github.comments) == 121
    assert github.comments[121].endswith("changed\n")
    page.write_text(changes.preview_markdown("prod", []))
    assert main([*COMMENT, str(page)]) == 0
    assert "stack `prod`" in github.comments[122]


@pytest.mark.usefixtures("job")
def test_a_job_without_the_permission_is_told_which_one(page, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "another")
    assert main([*COMMENT, str(page)]) == RequestError.exit_code
    said = capsys.readouterr().err
    assert "status 403" in said
    assert "pull-requests: write" in said


def test_outside_of_a_workflow_the_missing_variable_is_named(page, capsys, monkeypatch):
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert main([*COMMENT, str(page)]) == UserError.exit_code
    assert "GITHUB_REPOSITORY is not set" in capsys.readouterr().err


@pytest.mark.usefixtures("job")
def test_a_github_that_does_not_answer_is_told(page, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    assert main([*COMMENT, str(page)]) == RequestError.exit_code
    assert "no usable response from GitHub" in capsys.readouterr().err
