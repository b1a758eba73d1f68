"""The steps of a commissioning: what each expects, and reads from a command's output."""

from dataclasses import replace

import pytest

from common.errors import UserError
from common.page.render import render
from jobs.cli import COMMANDS, read_options
from jobs.commission.page import NOT_SEEN, page_of, rows_of
from jobs.commission.record import Fact, Record
from jobs.commission.steps import RUNS, Output, Wishes, preempted, steps

WISHES = Wishes("first", "imagenet-ndv2", "gpu", "imagenet:3", 2000, ("--batch-size", "64"))
ALL = steps(WISHES, 0.5, 3)
BY_NAME = {step.name: step for step in ALL}


def find(name, status=0, answer=None, text=""):
    return BY_NAME[name].find(Output(status, answer, text))


def ended(reason, attempts=1):
    return {"reason": reason, "attempts": attempts}


def test_steps_cost_more_and_more_but_for_the_plan_of_what_was_measured():
    hours = [step.hours for step in ALL if step.name != "plan"]
    assert hours == sorted(hours)
    assert hours[0] == 0
    assert [step.name for step in ALL if step.needed] == ["preflight", "smoke job"]


def test_the_runs_that_a_teardown_deletes_are_those_of_the_steps():
    assert {step.run for step in ALL if step.run} == {f"first-{end}" for end in RUNS}


def test_a_rank_is_killed_and_a_run_cancelled_in_a_run_that_begins_anew(tmp_path):
    record = Record(tmp_path / "facts.json")
    for status in (1, 25, 0):
        record.set("rank killed", Fact("different", "", status=status))
        record.set("training", Fact("different", "", status=status))
    record.set("rank killed", Fact("begun", ""))
    assert record.tries() == {"rank killed": 2, "training": 2}
    # A rank is killed in an attempt at step 0 alone; a training continues where it was.
    again = steps(replace(WISHES, tries=record.tries()), 0.5, 3)
    runs = {step.name: step.run for step in again}
    assert (runs["rank killed"], runs["cancel"], runs["training"]) == (
        "first-killed-3", "first-cancelled", "first-train",
    )  # fmt: skip
    assert all(step.run is None or step.run in step.command for step in again)


def test_without_a_data_set_nothing_trains_on_data():
    names = [step.name for step in steps(Wishes("x", "p", None, None, 100, ()), 1.0, 2)]
    assert names == ["preflight", "smoke job", "cluster check", "scaling", "plan"]


@pytest.mark.parametrize("step", ALL, ids=lambda step: step.name)
def test_each_step_is_a_command_that_exists_with_options_that_it_knows(step):
    verb, *rest = step.command
    own = rest[: rest.index("--")] if "--" in rest else rest
    assert read_options(verb, own)
    assert COMMANDS[verb].program or "--" not in rest
    assert step.source.startswith("docs/")


def test_a_run_ends_as_its_command_says():
    finding = find("smoke job", 0, ended("training completed", 2))
    assert (finding.good, finding.guess) == (True, True)
    assert finding.text == "training completed, 2 attempts"
    finding = find("training", 3, None, "a line\n\nerror: no data\n")
    assert (finding.good, finding.text, finding.guess) == (False, "error: no data", None)


def test_preflight_names_what_failed_and_what_azure_did_not_answer():
    checks = [
        {"name": "sign-in", "good": True, "text": "as x"},
        {"name": "quota", "good": None, "text": "unknown"},
    ]
    finding = find("preflight", 0, checks)
    assert (finding.good, finding.guess) == (True, False)
    assert finding.text == "2 of 2 checks passed; Azure did not answer about quota"
    failed = find("preflight", 1, [*checks, {"name": "image", "good": False, "text": "gone"}])
    assert failed.text.endswith("image: gone")
    assert not failed.good
    assert find("preflight", 4, None, "error: no stack").text == "error: no stack"


def test_a_check_shows_what_was_measured_and_not_the_summary_before():
    text = "first-check, attempt 1 (check)\n  cluster  x\nfirst-check-r1: Completed\n"
    details = "  16 ranks, 8 per node\n  InfiniBand works on all nodes\n"
    good = find("cluster check", 0, None, f"{text}{details}the cluster is good")
    assert (good.good, good.text) == (True, "16 ranks, 8 per node; InfiniBand works on all nodes")
    poor = find("cluster check", 23, None, f"{text}{details}the check found a problem")
    assert (poor.good, poor.guess) == (False, True)
    failed = find("cluster check", 1, ended("failed by its own error"), text)
    assert (failed.text, failed.guess) == ("failed by its own error, 1 attempt", None)


def test_a_check_whose_figures_nobody_read_has_not_passed():
    log = "first-check-r1: Running\n  all-reduce of 64 MB: 0.1 GB/s\nfirst-check-r1: Completed"
    finding = find("cluster check", 0, ended("completed"), log)
    assert (finding.good, finding.guess) == (False, None)
    assert finding.text == "completed, 1 attempt; what it measured was not read"


@pytest.mark.parametrize(
    ("place", "status", "good", "guess"),
    [("inside", 0, True, True), ("below", 0, False, False), (None, 0, True, None),
     ("inside", 1, False, True)],
)  # fmt: skip
def test_scaling_is_compared_with_its_prediction(place, status, good, guess):
    points = [{"nodes": 2, "images_per_s": [1.0, 2.0, 3.0], "place": place}]
    finding = find("scaling", status, {"points": points, "not_used": []})
    assert (finding.good, finding.guess) == (good, guess)
    assert finding.text.startswith("2 nodes: 2.0 images/s (")


def test_points_that_were_not_used_are_said():
    answer = {"points": [], "not_used": [{"nodes": 2, "problem": "no InfiniBand"}]}
    assert find("scaling", 1, answer).text == "2 nodes: no InfiniBand"
    assert find("scaling", 1, None, "error: x").text == "error: x"


def test_a_plan_is_to_rest_on_what_was_measured():
    choices = [{"nodes": 1, "basis": "measured"}, {"nodes": 2, "basis": "assumed"}]
    finding = find("plan", 0, {"choices": choices})
    assert (finding.good, finding.text) == (True, "1 node: measured, 2 nodes: assumed")
    assert not find("plan", 0, {"choices": choices[1:]}).good


def test_a_killed_rank_continues_or_says_why_not():
    text = "interrupted: a rank was lost (exit status 6 of the trainer)\ncontinues at step 300: ..."
    again = find("rank killed", 0, ended("training completed", 2), text)
    assert (again.good, again.guess) == (True, True)
    assert again.text.endswith("it continued at step 300")
    failed = find("rank killed", 137, ended("failed"), "exited with status code 137")
    assert (failed.good, failed.guess) == (True, True)
    silent = find("rank killed", 1, ended("failed"), "this rank kills itself after step 300")
    assert (silent.good, silent.guess) == (True, False)
    assert not find("rank killed", 0, ended("training completed")).good


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [(1, "failed by its own error", "Azure: exited with status code 1."),
     (3, "failed by its own error", "DataError: step 1370 has no images"),
     (25, "how the run ends is unknown", ""),
     (20, "cancelled by `cancel`", ""),
     (0, "training completed", "interrupted: PreemptionError\ncontinues at step 100: ...")],
)  # fmt: skip
def test_a_run_that_ends_for_another_reason_says_nothing_of_a_killed_rank(status, reason, text):
    finding = find("rank killed", status, ended(reason, 2), text)
    assert (finding.good, finding.guess) == (False, None)
    assert finding.text == f"{reason}, 2 attempts; nothing says that a rank was killed"


def test_a_cancelled_run_shows_whether_it_had_the_time_to_save():
    between = find("cancel", 0, ended("training completed", 2), "continues at step 1,234: x")
    assert (between.good, between.guess) == (True, True)
    assert "continued at step 1,234" in between.text
    regular = find("cancel", 0, ended("training completed", 2), "continues at step 1,200: x")
    assert (regular.good, regular.guess) == (True, None)
    lost = find("cancel", 0, ended("training completed", 2), "starts")
    assert (lost.good, lost.text) == (
        False, "training completed, 2 attempts; it began at the first step",
    )  # fmt: skip
    assert find("cancel", 1, None, "error: no quota").text == "error: no quota"


@pytest.mark.parametrize(
    ("line", "seen"),
    [("first-train: interrupted: PreemptionError: Nodes got pre-empted; attempt 2 follows", True),
     ("first-train: interrupted: a rank was lost (exit status 6 of the trainer)", False),
     ("LowPriority nodes may be pre-empted at any time", False)],
)  # fmt: skip
def test_a_real_pre_emption_is_noted_if_it_happens(line, seen):
    finding = preempted({"training": f"x\n{line}\ny"})
    assert (finding is not None) == seen
    assert not seen or finding.text == f"training: {line}"


def test_a_record_keeps_what_was_replaced_and_refuses_other_files(tmp_path):
    file = tmp_path / "facts.json"
    record = Record.read(file)
    first, second = Fact("different", "1", "bad", None, 1), Fact("as expected", "2", "good", True)
    for fact in (Fact("begun", "0"), first, Fact("begun", "2"), second):
        record.set("smoke job", fact)
    read = Record.read(file)
    assert read.facts == {"smoke job": second}
    assert [one["found"] for one in read.earlier] == ["bad"]
    for text in ("", "[]", '{"facts": {"a": {"b": 1}}, "earlier": []}'):
        file.write_text(text)
        with pytest.raises(UserError, match="no record of a commissioning"):
            Record.read(file)


def test_the_page_shows_expected_and_found_and_what_nobody_has_seen():
    facts = {
        "preflight": Fact("as expected", "2026-11-23T12:00:00Z", "all ok", True, 0, 3.0),
        "scaling": Fact("different", "2026-11-23T13:00:00Z", "<below>", False, 0, 600.0),
        "training": Fact("begun", "2026-11-23T14:00:00Z"),
    }
    rows = {row.name: row for row in rows_of(ALL, facts)}
    assert (rows["preflight"].verdict, rows["scaling"].verdict) == ("right", "wrong")
    assert rows["training"].state == rows["pre-emption"].found == NOT_SEEN
    assert rows["plan"].verdict == ""
    html = render("jobs.commission", "facts.html", page=page_of("dev", "ws", ALL, facts))
    for words in ("&lt;below&gt;", "guesses that were wrong: scaling", "2 of 9 steps seen"):
        assert words in html
