"""Known vulnerabilities of locked packages must be reviewed, and reviews expire."""

import json
import re
from datetime import date
from subprocess import CompletedProcess

import pytest

from common.errors import UserError
from environments import audit
from environments.audit import Finding, Judgement
from tests import ROOT
from tests.repository.test_repository import LOCKS

TODAY = date(2026, 11, 22)
FOUND = Finding("horovod", "0.28.1", ("PYSEC-1", "GHSA-1", "CVE-1"), ())
JUDGED = Judgement("horovod", "GHSA-1", "is not used here", date(2026, 11, 22))


def report(*vulnerabilities):
    packages = [{"name": "numpy", "version": "2.0.2", "vulns": []}]
    packages += [{"name": "horovod", "version": "0.28.1", "vulns": list(vulnerabilities)}]
    return {"dependencies": packages, "fixes": []}


VULNERABILITY = {"id": "PYSEC-1", "aliases": ["GHSA-1", "CVE-1"], "fix_versions": ["1.0"]}


def test_a_finding_is_known_by_the_name_that_any_database_gives_it():
    assert audit.problems({FOUND: ["cpu.txt"]}, [JUDGED], TODAY) == []


def test_an_unjudged_finding_is_told_with_its_mend_and_its_lock():
    found = {
        FOUND: ["gpu.txt", "cpu.txt"],
        Finding("h11", "0.1", ("CVE-2",), ("0.2",)): ["cpu.txt"],
    }
    assert audit.problems(found, [], TODAY) == [
        "horovod 0.28.1 has PYSEC-1 = GHSA-1 = CVE-1, not fixed yet; it is in cpu.txt, gpu.txt",
        "h11 0.1 has CVE-2, fixed in 0.2; it is in cpu.txt",
    ]


def test_a_judgement_is_of_one_package():
    other = Judgement("numpy", "GHSA-1", "is not used here", date(2027, 1, 1))
    told = audit.problems({FOUND: ["cpu.txt"]}, [other], TODAY)
    assert [line.split(" has ")[0] for line in told] == [
        "horovod 0.28.1",
        "numpy GHSA-1 was reviewed, but is no longer found; delete its entry",
    ]


def test_a_judgement_ends():
    (told,) = audit.problems({FOUND: ["cpu.txt"]}, [JUDGED], date(2026, 11, 23))
    assert told == "horovod GHSA-1: its review expired on 2026-11-22; review it again"


def test_findings_are_read_from_the_report():
    assert audit.findings(report()) == []
    assert audit.findings(report(VULNERABILITY)) == [
        Finding("horovod", "0.28.1", ("PYSEC-1", "GHSA-1", "CVE-1"), ("1.0",))
    ]


def test_a_package_that_was_not_looked_up_is_told():
    skipped = {"dependencies": [{"name": "numpy", "skip_reason": "not on PyPI"}]}
    with pytest.raises(UserError, match="numpy was not looked up: not on PyPI"):
        audit.findings(skipped)


@pytest.mark.parametrize(
    "text",
    [
        "[[judged]]\npackage = 'a'\nid = 'b'\nreason = 'c'\n",
        "[[judged]]\npackage = 'a'\nid = 'b'\nreason = 'c'\nuntil = 2027-01-01\nforever = true\n",
        "[[forgiven]]\npackage = 'a'\n",
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
    judged = audit.judgements(audit.JUDGED)
    assert judged
    for one in judged:
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


def test_every_lock_is_asked_about(asked, capsys):
    commands = asked(json.dumps(report(VULNERABILITY)))
    assert audit.main(["--osv-url", "http://127.0.0.1:1/v1/query"]) == 1
    assert {command[command.index("--requirement") + 1] for command in commands} == set(
        map(str, LOCKS)
    )
    assert all(command[-1] == "http://127.0.0.1:1/v1/query" for command in commands)
    printed = capsys.readouterr()
    assert f"it is in {', '.join(lock.name for lock in LOCKS)}" in printed.err
    assert f"{len(LOCKS)} locks, 1 known vulnerabilities" in printed.out


def test_all_is_well_if_what_is_found_is_judged(asked, capsys, monkeypatch):
    asked(json.dumps(report(VULNERABILITY)))
    judged = Judgement("horovod", "CVE-1", "is not used here", date.max)
    monkeypatch.setattr(audit, "judgements", lambda _path: [judged])
    assert audit.main([]) == 0
    assert capsys.readouterr().out.endswith("1 known vulnerabilities, 0 to review\n")


def test_no_answer_is_not_taken_for_no_findings(asked, capsys):
    asked("", "Traceback\nConnectionError: cannot reach api.osv.dev\n")
    assert audit.main([]) == 2
    said = capsys.readouterr().err
    assert "check that OSV can be reached" in said
    assert "cannot reach api.osv.dev" in said
