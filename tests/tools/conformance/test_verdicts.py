"""A refusal needs a reason, a reason needs a refusal, and the page shows the recorded verdicts."""

import json
from dataclasses import asdict

import pytest

from tools.conformance import __main__ as command
from tools.conformance import page
from tools.conformance.judges import JUDGES, Judge
from tools.conformance.verdict import ConformanceError, Refusal, Verdict, explained


class Source:
    """Installs nothing."""

    files = ()

    def install(self, folder):
        (folder / "program").write_text("judge")


def strict(workspace):
    assert (workspace / "program").exists()
    return Verdict("strict", "1.0", "2 things", 1, (Refusal("the other"),))


@pytest.fixture
def judges(tmp_path, monkeypatch):
    rows = {"strict": Judge("things", Source(), f"{__name__}:strict")}
    for module in (command, page):
        monkeypatch.setattr(module, "JUDGES", rows)
    monkeypatch.setattr("tools.conformance.installation.TOOLS", tmp_path / "tools")


def test_a_refusal_without_a_reason_fails_the_run_and_is_recorded(judges, tmp_path, capsys):
    file = tmp_path / "results.json"
    assert command.main(["--json", str(file)]) == 1
    assert "the other: NO REASON IS LISTED" in capsys.readouterr().out
    recorded = json.loads(file.read_text())
    assert Verdict.read(recorded["strict"]) == strict(tmp_path / "tools" / "strict")


def test_a_reason_explains_the_refusals_that_begin_with_it():
    refused = explained({"a: 2", "a: 1", "b"}, {"a": "A reason."})
    assert refused == (Refusal("a: 1", "A reason."), Refusal("a: 2", "A reason."), Refusal("b"))
    assert Verdict("j", "1", "3 things", 0, refused).unexplained == (Refusal("b"),)


def test_a_reason_that_explains_nothing_is_an_error():
    with pytest.raises(ConformanceError, match="'gone'"):
        explained({"a"}, {"gone": "A reason."})


def test_the_page_shows_the_recorded_verdicts_and_each_has_its_reasons():
    verdicts = page.recorded()
    assert list(verdicts) == list(JUDGES)
    text = page.PAGE.read_text()
    assert page.filled(text, verdicts) == text, "run `python -m tools.conformance.page`"
    for verdict in verdicts.values():
        assert verdict.unexplained == ()
        assert asdict(verdict)["accepted"] > 0
