"""The page of a rehearsal, as its reader sees it."""

import dataclasses
import re

import pytest

from rehearsal.__main__ import main
from rehearsal.page.cycle_page import address, write_page
from rehearsal.page.record import Attempt, Cycle, Link, NodePool, StepResult, to_json
from rehearsal.page.request_kinds import RequestKind
from rehearsal.page.timeline import clock
from tests.rehearsal.support import recorded_cycles
from tests.rehearsal.support.parsed_page import EMPTY, Page

HOSTILE = "<script>alert('x')</script>\"&\x1b[31m\x00\ud800"


def hostile():
    """Every text of a record is an attack."""
    bad = HOSTILE
    return Cycle(
        bad, 1000.0, 20.0, bad, bad, ((bad, bad),),
        (
            StepResult(bad, bad, bad, 1000.0, 5.0, "ok", (bad,) * 9, bad),
            StepResult(bad, bad, bad, 1005.0, 5.0, "failed", (bad,), bad),
            StepResult(bad, bad, bad, 0.0, 0.0, "skipped"),
        ),
        (Attempt(bad, bad, 1, 1, 1001.0, 1004.0, bad, bad, 1, 2),),
        (NodePool(bad, bad, bad, ((1001.0, 1), (1004.0, 0))), NodePool(bad, bad, bad, ())),
        (RequestKind("sign-in", bad, bad, 1, 1, 1.0),),
        (Link(bad, bad), Link("go", "javascript:alert(1)"), Link("out", "//example.com/x")),
    )  # fmt: skip


@pytest.mark.parametrize(
    "cycle", [recorded_cycles.whole(), recorded_cycles.failed(), hostile(), EMPTY]
)
def test_a_page_is_well_formed_and_runs_and_loads_nothing(cycle):
    page = Page(cycle)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby") in {None, *ids}
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in ids

    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert not any(name.startswith("on") for _, found in page.elements for name in found)
    addresses = [found["href"] for _, found in page.elements if "href" in found]
    assert not [a for a in addresses if ":" in a or a.startswith(("/", "\\"))]
    assert not re.search(r"url\(|@import", page.source)


def test_texts_of_the_record_are_seen_and_not_taken_for_markup():
    page = Page(hostile())
    assert "<script" not in page.source
    assert "<script>alert('x')</script>\"&" in page.seen
    assert "\x1b" not in page.source
    assert "\x00" not in page.source
    page.source.encode("utf-8")


def test_a_link_stays_beside_the_page():
    assert address("a run/report.html") == "a%20run/report.html"
    assert address("docs/x.md#a-part") == "docs/x.md#a-part"
    assert "javascript:" not in address("javascript:alert(1)")
    for outside in ("//example.com", "/etc/passwd", "\\\\host\\x", "#a-part", ""):
        assert address(outside) is None
    links = (Link("kept", "a run/"), Link("elsewhere", "/etc/passwd"))
    page = Page(dataclasses.replace(EMPTY, links=links))
    assert [found["href"] for tag, found in page.elements if tag == "a"].count("a%20run/") == 1
    assert "elsewhere" in page.seen
    assert "passwd" not in page.source


@pytest.mark.parametrize("cycle", [recorded_cycles.whole(), recorded_cycles.failed()])
def test_every_step_is_there_with_its_command_and_findings(cycle):
    page = Page(cycle)
    for step in cycle.steps:
        assert step.title in page.texts
        assert step.name in page.texts
        assert step.command in page.texts
        for line in step.lines:
            assert " ".join(line.split()) in page.seen


def test_a_whole_cycle_says_so_and_how_long_it_took():
    page = Page(recorded_cycles.whole())
    assert f"All {len(recorded_cycles.whole().steps)} steps passed in 4 min 0 s" in page.seen
    assert page.of("span", "class", "good")
    assert not page.of("section", "class", "failure")


def test_a_part_of_a_cycle_is_not_said_to_be_all_of_it():
    one, other = recorded_cycles.whole().steps[:2]
    part = (one, dataclasses.replace(other, outcome="skipped"))
    seen = Page(dataclasses.replace(EMPTY, seconds=9.0, steps=part)).seen
    assert "1 step passed in 9.0 s" in seen
    assert "All " not in seen


def test_a_failure_is_in_the_headline_and_says_where_to_look():
    cycle = recorded_cycles.failed()
    page = Page(cycle)
    assert f"Failed at “{cycle.failed.title}”" in page.seen
    begins = page.source.index('class="failure card"')
    box = page.source[begins : page.source.index("</section>", begins)]
    for expected in ("expected no changes, found 1", cycle.failed.place, cycle.failed.command):
        assert expected in box
    assert begins < page.source.index('id="timeline"')
    skipped = [step for step in cycle.steps if step.outcome == "skipped"]
    assert len(page.of("span", "class", "skipped")) == len(skipped)
    # The timeline has no bars of skipped steps.
    assert len(page.of("span", "class", "step")) == len(cycle.steps) - len(skipped)


def test_an_empty_record_is_a_page_too():
    seen = Page(EMPTY).seen
    assert "No step completed" in seen
    assert "No training was submitted." in seen
    assert "No requests were recorded." in seen


def test_every_kind_of_request_is_on_the_page():
    cycle = recorded_cycles.whole()
    page = Page(cycle)
    for kind in cycle.kinds:
        assert kind.resource in page.texts
    total = sum(kind.count for kind in cycle.kinds)
    assert f"{total:,} requests by service" in page.seen


@pytest.mark.parametrize(
    ("errors", "absent", "told", "columns"),
    [
        (0, 0, None, []),
        (0, 7, "7 not found", ["not found"]),
        (2, 0, "2 failed (4xx, 5xx)", ["4xx, 5xx"]),
        (2, 7, "7 not found, 2 others failed (4xx, 5xx)", ["not found", "4xx, 5xx"]),
        (1, 7, "7 not found, 1 other failed (4xx, 5xx)", ["not found", "4xx, 5xx"]),
    ],
)
def test_asking_for_what_is_not_there_is_no_failure(errors, absent, told, columns):
    kind = RequestKind("blob storage", "GET", "blob", 20, errors, 1.0, absent)
    page = Page(dataclasses.replace(EMPTY, kinds=(kind,)))
    heads = page.texts[page.texts.index("resource") :]
    assert heads[: heads.index("median")] == ["resource", "method", "requests", *columns]
    assert len(page.of("span", "class", "refused")) == bool(errors)
    if told is None:
        assert "not found" not in page.seen
        assert "4xx" not in page.seen
    else:
        assert told in page.texts


def test_a_clock_shows_hours_only_where_there_are_some():
    assert [clock(s) for s in (0, 61.9, 3661)] == ["0:00", "1:01", "1:01:01"]


def test_the_command_draws_a_record_again(tmp_path, capsys):
    record = tmp_path / "kept" / "record.json"
    record.parent.mkdir()
    record.write_text(to_json(recorded_cycles.whole()), encoding="utf-8")
    assert main(["page", str(record)]) == 0
    page = record.with_name("rehearsal.html")
    assert capsys.readouterr().out.strip() == str(page)
    link = re.search(r'href="([^"#]+)#what-differs-from-azure"', page.read_text(encoding="utf-8"))
    assert "## What differs from Azure" in (page.parent / link[1]).read_text(encoding="utf-8")
    assert write_page(recorded_cycles.whole(), tmp_path / "other" / "page.html").is_file()
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["page.html"]


def test_the_command_says_what_is_wrong_with_a_record(tmp_path, capsys):
    record = tmp_path / "record.json"
    assert main(["page", str(record)]) == 1
    record.write_text('{"title": "t"}', encoding="utf-8")
    assert main(["page", str(record)]) == 1
    errors = capsys.readouterr().err
    assert "cannot read the record" in errors
    assert f"error: {record}: the record: began: is missing" in errors
