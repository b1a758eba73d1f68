"""The page of a rehearsal: what its record may say, and what a reader of the page sees."""

import dataclasses
import html.parser
import json
import re
import time

import pytest

from common.page.markup import text
from common.text import duration
from rehearsal.__main__ import main
from rehearsal.control_plane.request_log import LoggedRequest
from rehearsal.errors import RehearsalError
from rehearsal.page.cycle_page import draw, write_page
from rehearsal.page.events import events, steps
from rehearsal.page.markup import anchor, clock
from rehearsal.page.record import Attempt, Cycle, Link, NodePool, StepResult, from_json, to_json
from rehearsal.page.request_kinds import RequestKind, classify, count_kinds
from rehearsal.page.timeline import Axis, axis_of, levels
from tests.rehearsal.support import cycles

HOSTILE = "<script>alert('x')</script>\"&\x1b[31m\x00\ud800"
ARM = "/subscriptions/S-1/resourceGroups/secret-group"
WORKSPACE = f"{ARM}/providers/Microsoft.MachineLearningServices/workspaces/secret-ws"
EMPTY = Cycle("An empty one", 1000.0, 0.0, "here", "3.259.0")


class Page(html.parser.HTMLParser):
    """What a browser would find: elements, and the texts of each."""

    def __init__(self, cycle):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.source = draw(cycle, "../docs/rehearsal.md")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing, at {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def seen(self):
        return " ".join(" ".join(self.texts).split())

    def of(self, tag, name, value):
        return [a for t, a in self.elements if t == tag and value in (a.get(name) or "").split()]


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


@pytest.mark.parametrize("cycle", [cycles.whole(), cycles.failed(), hostile(), EMPTY])
def test_every_element_of_the_page_is_closed_and_every_id_is_there_once(cycle):
    page = Page(cycle)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("aria-labelledby",):
            assert attributes.get(name) in {None, *ids}
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in ids


@pytest.mark.parametrize("cycle", [cycles.whole(), cycles.failed(), hostile(), EMPTY])
def test_the_page_runs_and_loads_nothing(cycle):
    page = Page(cycle)
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


def test_a_terminals_colours_are_left_out():
    assert text("\x1b[1;31mred\x1b[0m\r\n<") == "red\n&lt;"


def test_a_link_stays_beside_the_page():
    assert anchor("A", "a run/report.html") == '<a href="a%20run/report.html">A</a>'
    assert anchor("A", "docs/x.md#a-part") == '<a href="docs/x.md#a-part">A</a>'
    assert "javascript:" not in anchor("A", "javascript:alert(1)")
    assert anchor("A", "//example.com") == "A"
    assert anchor("A", "/etc/passwd") == "A"


def test_the_axis_goes_from_the_beginning_to_the_end():
    axis = Axis(100.0, 300.0, 20.0, 90.0)
    assert (axis.at(100.0), axis.at(200.0), axis.at(300.0)) == (20.0, 55.0, 90.0)
    assert (axis.at(0.0), axis.at(1e12)) == (20.0, 90.0)


@pytest.mark.parametrize("length", [1, 7, 59, 60, 61, 330, 3600, 5000, 90_000, 1e9])
@pytest.mark.parametrize("most", [5, 9])
def test_marks_are_few_and_in_order_and_within_the_axis(length, most):
    marks = Axis(0.0, length, 0.0, 100.0).marks(most)
    places = [place for place, _ in marks]
    assert places[0] == 0.0
    assert places == sorted(set(places))
    assert 1 <= len(marks) <= most
    assert len({label for _, label in marks}) == len(marks)


def test_an_axis_holds_what_outlives_the_cycle():
    late = Attempt("j", "c", 1, 1, 1001.0, 1500.0, "Completed")
    assert axis_of(dataclasses.replace(EMPTY, attempts=(late,)), 0, 100).ended == 1500.0
    assert axis_of(EMPTY, 0, 100).ended > EMPTY.began


@pytest.mark.parametrize("cycle", [cycles.whole(), cycles.failed()])
def test_every_step_is_there_with_its_command_and_findings(cycle):
    page = Page(cycle)
    for step in cycle.steps:
        assert step.title in page.texts
        assert step.name in page.texts
        assert step.command in page.texts
        for line in step.lines:
            assert " ".join(line.split()) in page.seen


def test_a_step_is_a_bar_where_it_was_in_both_pictures():
    step = StepResult("s", "S", "", 1025.0, 50.0, "ok")
    page = Page(dataclasses.replace(EMPTY, seconds=100.0, steps=(step,)))
    for bar, (left, right) in zip(page.of("rect", "class", "step"), [(29, 90), (6, 94)],
                                  strict=True):  # fmt: skip
        assert float(bar["x"].rstrip("%")) == pytest.approx(left + (right - left) / 4, abs=0.01)
        assert float(bar["width"].rstrip("%")) == pytest.approx((right - left) / 2, abs=0.01)


def test_a_whole_cycle_says_so_and_how_long_it_took():
    page = Page(cycles.whole())
    assert f"All {len(cycles.whole().steps)} steps worked, in 4 min 0 s" in page.seen
    assert page.of("span", "class", "good")
    assert not page.of("section", "class", "failure")


def test_a_part_of_a_cycle_is_not_said_to_be_all_of_it():
    one, other = cycles.whole().steps[:2]
    part = (one, dataclasses.replace(other, outcome="skipped"))
    seen = Page(dataclasses.replace(EMPTY, seconds=9.0, steps=part)).seen
    assert "1 step worked, in 9.0 s" in seen
    assert "All " not in seen


def test_a_failure_is_in_the_headline_with_what_was_said_and_where_to_look():
    cycle = cycles.failed()
    page = Page(cycle)
    assert f"Failed at “{cycle.failed.title}”" in page.seen
    begins = page.source.index('class="failure card"')
    box = page.source[begins : page.source.index("</section>", begins)]
    for expected in ("expected no changes, found 1", cycle.failed.place, cycle.failed.command):
        assert expected in box
    assert begins < page.source.index('id="time-line"')
    skipped = [step for step in cycle.steps if step.outcome == "skipped"]
    assert len(page.of("span", "class", "skipped")) == len(skipped)
    # Neither of the two pictures has a bar of what was not done.
    assert len(page.of("rect", "class", "step")) == 2 * (len(cycle.steps) - len(skipped))


def test_only_the_first_failure_is_the_headline():
    steps = tuple(
        StepResult(name, name.upper(), "", 1000.0, 1.0, "failed", (f"because {name}",))
        for name in "ab"
    )
    cycle = dataclasses.replace(EMPTY, steps=steps)
    assert cycle.failed == steps[0]
    assert "Failed at “A”" in Page(cycle).seen


def test_the_story_tells_of_the_pre_emption_and_where_it_continued():
    told = [event.words for event in events(cycles.whole())]
    assert told == [
        "Attempt 1 begins: 2 ranks on 2 nodes of gpu-nd40rsv2-lp",
        "Attempt 1: pre-empted at step 160. PreemptionError: Nodes of this job got pre-empted.",
        "Attempt 2 continues at step 141, so that 20 steps are done again",
        "Attempt 2: completed at step 400",
        "gpu-nd40rsv2-lp is back to no nodes",
    ]
    page = Page(cycles.whole())
    assert all(sentence in page.seen for sentence in told)
    assert len(page.of("line", "class", "cut")) == 2
    assert len(page.of("line", "class", "cut-line")) == 2


def test_a_failure_of_the_code_is_no_pre_emption():
    broken = Attempt("j", "c", 1, 2, 1001.0, 1010.0, "Failed", "User process exited with 1.", 1, 10)
    cycle = dataclasses.replace(EMPTY, seconds=20.0, attempts=(broken,))
    assert events(cycle)[-1].words == "Attempt 1: failed at step 10. User process exited with 1."
    assert not Page(cycle).of("line", "class", "cut-line")


def test_an_attempt_that_still_runs_is_drawn_to_the_end():
    running = Attempt("j", "c", 1, 2, 1050.0, None, "Running")
    page = Page(dataclasses.replace(EMPTY, seconds=100.0, attempts=(running,)))
    wide = page.of("rect", "class", "attempt")[0]
    assert float(wide["x"].rstrip("%")) + float(wide["width"].rstrip("%")) == pytest.approx(90)
    assert "still running" in page.seen
    assert "broken off" not in page.seen


def test_an_attempt_of_unknown_steps_says_nothing_of_them():
    first = Attempt("j", "c", 1, 1, 1001.0, 1002.0, "Canceled")
    second = Attempt("k", "c", 1, 1, 1003.0, 1004.0, "Completed")
    told = [e.words for e in events(dataclasses.replace(EMPTY, attempts=(first, second)))]
    assert told[1:3] == [
        "Attempt 1: canceled",
        "Attempt 2 begins: 1 rank on 1 node of c",
    ]


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [(1, 40, "steps 1 to 40"), (41, None, "from step 41"), (None, 40, "to step 40"),
     (None, None, "")],
)  # fmt: skip
def test_the_steps_of_an_attempt_are_told_as_far_as_they_are_known(first, last, words):
    attempt = Attempt("j", "c", 1, 1, 1.0, 2.0, "Completed", "", first, last)
    assert steps(attempt) == words


def test_nodes_that_stay_are_not_said_to_be_gone():
    done = Attempt("j", "c", 1, 1, 1001.0, 1010.0, "Completed")
    stays = NodePool("c", "s", "Dedicated", ((1000.0, 0), (1001.0, 2)))
    early = NodePool("c", "s", "Dedicated", ((1000.0, 1), (1005.0, 0)))
    cycle = dataclasses.replace(EMPTY, seconds=20.0, attempts=(done,), pools=(stays, early))
    assert not [event for event in events(cycle) if event.where == "nodes"]


def test_the_curve_of_nodes_joins_samples_that_say_the_same():
    pool = NodePool("c", "s", "p", ((0.0, 0), (1.0, 2), (2.0, 2), (3.0, 2), (4.0, 0)))
    assert list(levels(pool, 9.0)) == [(0.0, 1.0, 0), (1.0, 4.0, 2), (4.0, 9.0, 0)]


def test_an_empty_record_is_a_page_too():
    seen = Page(EMPTY).seen
    assert "No step was done" in seen
    assert "No training was submitted." in seen
    assert "No requests were recorded." in seen


@pytest.mark.parametrize("cycle", [cycles.whole(), cycles.failed(), EMPTY])
def test_a_record_is_the_same_after_json(cycle):
    assert from_json(to_json(cycle)) == cycle


def edited(change):
    data = json.loads(to_json(cycles.whole()))
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d.update(colour="red"), "the record: colour: there is no such key"),
        (lambda d: d["steps"][1].update(colour="red"), r"steps\[1\]\.colour: there is no such key"),
        (lambda d: d["attempts"][0].pop("job"), r"attempts\[0\]\.job: is missing"),
        (lambda d: d.update(seconds="long"), r"seconds: 'long' is not a number"),
        (lambda d: d.update(seconds=True), "seconds: True is not a number"),
        (lambda d: d.update(seconds=float("nan")), "seconds: nan is not a number"),
        (lambda d: d["attempts"][0].update(nodes=1.5), "nodes: 1.5 is not a whole number"),
        (lambda d: d["steps"][0].update(outcome="good"), "outcome: 'good' is not one of ok, fail"),
        (lambda d: d["kinds"][0].update(service=[]), "service: .* is not one of resource manager"),
        (lambda d: d["pools"][0].update(samples=[[1, 2, 3]]), r"samples\[0\]: .* is not a list of"),
        (lambda d: d.update(steps={}), "steps: {} is not a list"),
    ],
)  # fmt: skip
def test_a_record_that_is_not_as_agreed_is_refused_by_its_place(change, complaint):
    with pytest.raises(RehearsalError, match=complaint):
        from_json(edited(change))


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_what_is_no_record_is_refused(content):
    with pytest.raises(RehearsalError, match="the record"):
        from_json(content)


@pytest.mark.parametrize(
    ("method", "path", "query", "service", "resource"),
    [
        ("PUT", ARM, "api-version=1", "resource manager", "resourceGroups"),
        ("GET", f"{ARM}/resources", "", "resource manager", "resources: list"),
        ("GET", "/subscriptions/S-1", "", "resource manager", "subscriptions"),
        ("GET", WORKSPACE, "", "resource manager", "workspaces"),
        ("PUT", f"{WORKSPACE}/jobs/secret", "", "resource manager", "workspaces/jobs"),
        ("GET", f"{WORKSPACE}/jobs", "$top=5", "resource manager", "workspaces/jobs: list"),
        ("POST", f"{WORKSPACE}/jobs/secret/cancel", "", "resource manager",
         "workspaces/jobs: cancel"),
        ("PUT", f"{WORKSPACE}/environments/secret/versions/3", "", "resource manager",
         "workspaces/environments/versions"),
        ("PUT", f"{WORKSPACE}/providers/Microsoft.Authorization/roleAssignments/secret", "",
         "resource manager", "roleAssignments"),
        ("GET", f"{ARM}/providers/Microsoft.Network/virtualNetworks", "", "resource manager",
         "virtualNetworks: list"),
        ("PUT", f"{ARM}/providers/Microsoft.OperationalInsights/workspaces/secret", "",
         "resource manager", "OperationalInsights/workspaces"),
        ("POST", f"{ARM}/providers/Microsoft.KeyVault/locations/l/deletedVaults/secret/purge", "",
         "resource manager", "locations/deletedVaults: purge"),
        ("GET", "/subscriptions/", "", "resource manager", "other"),
        ("GET", "/secretacc/secret-container", "restype=container&comp=list&prefix=secret",
         "blob storage", "container: list"),
        ("PUT", "/secretacc/secret-container", "restype=container", "blob storage", "container"),
        ("PUT", "/secretacc/c/secret/blob", "comp=block&blockid=secret", "blob storage",
         "blob: block"),
        ("PUT", "/secretacc/c/secret", "comp=blocklist", "blob storage", "blob: block list"),
        ("PUT", "/secretacc/c/secret", "comp=secret", "blob storage", "blob"),
        ("GET", "/secretacc/c/secret", "sv=1&sig=secret", "blob storage", "blob"),
        ("GET", "/secretacc", "comp=list", "blob storage", "containers: list"),
        ("GET", f"/history/v1.0{WORKSPACE}/experiments/secret/runs/secret/details", "",
         "run history", "runs: details"),
        ("PATCH", f"/history/v1.0{WORKSPACE}/runs/secret", "", "run history", "runs"),
        ("POST", f"/history/v1.0{WORKSPACE}/rundata", "", "run history", "rundata"),
        ("GET", f"/history/v1.0{WORKSPACE}/secret", "", "run history", "other"),
        ("POST", f"/mlflow/v1.0{WORKSPACE}/api/2.0/mlflow/runs/log-batch", "", "metrics",
         "runs/log-batch"),
        ("GET", f"/mlflow/v1.0{WORKSPACE}/api/2.0/mlflow-artifacts/Secret", "", "metrics", "other"),
        ("POST", "/tenant-1/oauth2/v2.0/token", "", "sign-in", "token"),
        ("GET", "/tenant-1/v2.0/.well-known/openid-configuration", "", "sign-in", "configuration"),
        ("GET", "/common/discovery/instance", "", "sign-in", "configuration"),
        ("GET", "/metadata/endpoints", "api-version=2019-05-01", "sign-in", "cloud endpoints"),
    ],
)  # fmt: skip
def test_a_request_is_told_by_what_it_asked_for(method, path, query, service, resource):
    found = classify(method, path, query)
    assert found == (service, resource)
    assert "secret" not in found[1].lower()


def test_requests_are_counted_by_kind():
    asked = [
        LoggedRequest("GET", f"{WORKSPACE}/jobs/a", "", 200, "me", 1.0, 0.010),
        LoggedRequest("GET", f"{WORKSPACE}/jobs/b", "x=1", 404, "me", 2.0, 0.030),
        LoggedRequest("GET", f"{WORKSPACE}/jobs/c", "", 0, "me", 3.0, 0.020),
        LoggedRequest("GET", f"{WORKSPACE}/jobs/d", "", 503, "me", 3.5),
        LoggedRequest("PUT", f"{WORKSPACE}/jobs/a", "", 201, "me", 4.0),
        LoggedRequest("GET", "/acc/c/b", "", 206, "", 5.0),
        LoggedRequest("GET", "/acc/c/b", "", 416, "", 6.0),
        LoggedRequest("GET", "/acc/c/b", "", 403, "", 7.0),
    ]
    assert count_kinds(asked) == (
        RequestKind("resource manager", "GET", "workspaces/jobs", 4, 2, 20.0, absent=1),
        RequestKind("resource manager", "PUT", "workspaces/jobs", 1, 0, None),
        RequestKind("blob storage", "GET", "blob", 3, 1, None, absent=1),
    )
    assert count_kinds([]) == ()


def test_every_kind_of_request_is_on_the_page():
    cycle = cycles.whole()
    page = Page(cycle)
    for kind in cycle.kinds:
        assert kind.resource in page.texts
    total = sum(kind.count for kind in cycle.kinds)
    assert f"{total:,} requests, by the service" in page.seen


@pytest.mark.parametrize(
    ("errors", "absent", "told", "columns"),
    [
        (0, 0, None, []),
        (0, 7, "7 for what was not there", ["not there"]),
        (2, 0, "2 answered 4xx or 5xx", ["4xx, 5xx"]),
        (2, 7, "7 for what was not there, 2 others answered 4xx or 5xx", ["not there", "4xx, 5xx"]),
    ],
)
def test_asking_for_what_is_not_there_is_no_failure(errors, absent, told, columns):
    kind = RequestKind("blob storage", "GET", "blob", 20, errors, 1.0, absent)
    page = Page(dataclasses.replace(EMPTY, kinds=(kind,)))
    heads = page.texts[page.texts.index("asked for") :]
    assert heads[: heads.index("median")] == ["asked for", "method", "requests", *columns]
    assert len(page.of("span", "class", "refused")) == bool(errors)
    if told is None:
        assert "not there" not in page.seen
        assert "4xx" not in page.seen
    else:
        assert told in page.texts


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (99.9, "99.9 s"), (99.97, "1 min 40 s"), (359.6, "6 min 0 s"),
     (7200, "2 h 0 min")],
)  # fmt: skip
def test_durations_are_read_at_a_glance(seconds, words):
    assert duration(seconds) == words


def test_a_clock_shows_hours_only_where_there_are_some():
    assert [clock(s) for s in (0, 61.9, 3661)] == ["0:00", "1:01", "1:01:01"]


def test_the_command_draws_a_record_again(tmp_path, capsys):
    record = tmp_path / "kept" / "record.json"
    record.parent.mkdir()
    record.write_text(to_json(cycles.whole()), encoding="utf-8")
    assert main(["page", str(record)]) == 0
    page = record.with_name("rehearsal.html")
    assert capsys.readouterr().out.strip() == str(page)
    link = re.search(r'href="([^"#]+)#what-differs-from-azure"', page.read_text(encoding="utf-8"))
    assert "## What differs from Azure" in (page.parent / link[1]).read_text(encoding="utf-8")
    assert write_page(cycles.whole(), tmp_path / "other" / "page.html").is_file()
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["page.html"]


def test_the_command_says_what_is_wrong_with_a_record(tmp_path, capsys):
    record = tmp_path / "record.json"
    assert main(["page", str(record)]) == 1
    record.write_text('{"title": "t"}', encoding="utf-8")
    assert main(["page", str(record)]) == 1
    said = capsys.readouterr().err
    assert "cannot be read" in said
    assert f"error: {record}: the record: began: is missing" in said


def test_a_page_is_drawn_quickly_of_a_long_record():
    pool = NodePool("c", "s", "p", tuple((1000.0 + n, n % 3) for n in range(5000)))
    began = time.monotonic()
    draw(dataclasses.replace(EMPTY, seconds=5000.0, pools=(pool,)), "docs")
    assert time.monotonic() - began < 10
