"""Known vulnerabilities of locked packages must be reviewed, and reviews expire."""

import json
import re
from datetime import date
from subprocess import CompletedProcess

import pytest

from common.errors import UserError
from environments import audit
from environments.audit import Judgement
from tests import ROOT
from tests.repository.test_repository import LOCKS

TODAY = date(2026, 11, 22)
FOUND = {"id": "PYSEC-1", "aliases": ["GHSA-1", "CVE-1"], "fix_versions": []}
HOROVOD = {"name": "horovod", "version": "0.28.1", "vulns": [FOUND]}
H11 = {
    "name": "h11",
    "version": "0.1",
    "vulns": [{"id": "CVE-2", "aliases": [], "fix_versions": ["0.2"]}],
}
REPORTS = {"gpu.txt": [HOROVOD], "cpu.txt": [HOROVOD, H11]}
UNKNOWN = "horovod 0.28.1 has PYSEC-1 = GHSA-1 = CVE-1, not fixed yet; it is in cpu.txt, gpu.txt"
FIXED = "h11 0.1 has CVE-2, fixed in 0.2; it is in cpu.txt"


def judged(package="horovod", name="GHSA-1", until=TODAY):
    return Judgement(package, name, "is not used here", until)


@pytest.mark.parametrize(
    ("accepted", "told"),
    [
        ([], [UNKNOWN, FIXED]),
        ([judged(), judged("h11", "CVE-2")], []),
        ([judged(name="CVE-1")], [FIXED]),
        (
            [judged("numpy")],
            [
                *(UNKNOWN, FIXED),
                "numpy GHSA-1 was reviewed, but is no longer found; delete its entry",
            ],
        ),
        (
            [judged(until=date(2026, 11, 21))],
            [FIXED, "horovod GHSA-1: its review expired on 2026-11-21; review it again"],
        ),
    ],
)
def test_what_is_found_must_be_reviewed_and_the_other_way_round(accepted, told):
    assert list(audit.problems(REPORTS, accepted, TODAY)) == told


def test_a_package_that_was_not_looked_up_is_told():
    skipped = {"cpu.txt": [{"name": "numpy", "skip_reason": "not on PyPI"}]}
    assert list(audit.problems(skipped, [], TODAY)) == ["numpy was not looked up: not on PyPI"]


@pytest.mark.parametrize(
    "text",
    [
        "[[judged]]\npackage = 'a'\nid = 'b'\nreason = 'c'\n",
        "[[judged]]\npackage = 'a'\nid = 'b'\nreason = 'c'\nuntil = 2027-01-01\nforever = true\n",
        "[[judged]\n",
    ],
)
def test_an_entry_that_lacks_something_is_refused(tmp_path, text):
    (tmp_path / "judged.toml").write_text(text)
    with pytest.raises(UserError, match=r"judged\.toml: "):
        audit.judgements(tmp_path / "judged.toml")


def test_what_was_judged_is_locked_and_explained():
    document = (ROOT / "docs" / "vulnerabilities.md").read_text()
    locked = {
        name for lock in LOCKS for name in re.findall(r"^(\S+)==", lock.read_text(), re.MULTILINE)
    }
    reviewed = audit.judgements(audit.JUDGED)
    assert reviewed
    for one in reviewed:
        assert one.package in locked, one
        assert one.id in document, one
        assert str(one.until) in document, one


@pytest.fixture
def asked(monkeypatch):
    """Replace pip-audit by given answers; return its commands."""
    commands = []

    def answers(stdout, stderr=""):
        def run(command, **_options):
            commands.append(command)
            return CompletedProcess(command, 1, stdout, stderr)

        monkeypatch.setattr(audit.subprocess, "run", run)
        return commands

    return answers


def test_every_lock_is_asked_about(asked, capsys, monkeypatch):
    commands = asked(json.dumps({"dependencies": [HOROVOD]}))
    monkeypatch.setattr(audit, "judgements", lambda _path: [])
    assert audit.main(["--osv-url", "http://127.0.0.1:1/v1/query"]) == 1
    assert {command[command.index("--requirement") + 1] for command in commands} == set(
        map(str, LOCKS)
    )
    assert all(command[-1] == "http://127.0.0.1:1/v1/query" for command in commands)
    printed = capsys.readouterr()
    assert f"it is in {', '.join(lock.name for lock in LOCKS)}" in printed.err
    assert printed.out == f"{len(LOCKS)} locks, 0 reviewed, 1 to review\n"
    monkeypatch.setattr(audit, "judgements", lambda _path: [judged(until=date.max)])
    assert audit.main([]) == 0


def test_no_answer_is_not_taken_for_no_findings(asked, capsys):
    asked("", "Traceback\nConnectionError: cannot reach api.osv.dev\n")
    assert audit.main([]) == 2
    said = capsys.readouterr().err
    assert "check that OSV can be reached" in said
    assert "cannot reach api.osv.dev" in said
