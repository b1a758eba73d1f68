"""The steps of a commissioning: what each expects, and reads from documents and files."""

import re

import pytest

from common.errors import UserError
from common.page.render import render
from jobs.cli import COMMANDS, read_options
from jobs.commission.facts import NOT_SEEN, Fact, Record, page_of, rows_of
from jobs.commission.options import RUNS, CommissionOptions
from jobs.commission.steps import Output, preempted, steps
from jobs.following.cluster_check_result import ClusterCheckResult
from jobs.following.resubmit_policy import AttemptResult
from jobs.scaling.measurement import run_key
from tests.jobs.scaling.test_measurement import TWO
from tests.jobs.support.samples import TRAINING

OPTIONS = CommissionOptions("first", data="imagenet:3", cluster="gpu")
ALL = steps(OPTIONS, ("--batch-size", "64"), {})
BY_NAME = {step.name: step for step in ALL}


def find(name, status=0, answer=None, text="", **files):
    return BY_NAME[name].find(Output(status, answer, text, **files))


def attempt(status="Failed", exit_code=None, *messages):
    return AttemptResult(status, messages=messages, exit_code=exit_code)


def ended(reason, attempts=1):
    return {"reason": reason, "attempts": attempts}


def test_steps_cost_more_and_more_but_for_the_plan_of_what_was_measured():
    hours = [step.hours for step in ALL if step.name != "plan"]
    assert hours == sorted(hours)
    assert hours[0] == 0
    assert [step.name for step in ALL if step.needed] == [
        "preflight", "data set", "smoke job", "cluster check",
    ]  # fmt: skip


def test_the_runs_that_a_teardown_deletes_are_those_of_the_steps():
    assert {step.run for step in ALL if step.run} == {f"first-{end}" for end in RUNS}
    own = [step.run for step in ALL if step.run] + [run_key("first", TWO, TRAINING, [])]
    assert all(re.fullmatch(OPTIONS.own_runs, run) for run in (*own, "first-killed-3"))
    for other in ("first", "second", "first-2", "first-gpu-2", "afirst"):
        keys = f"{other}-training", f"{other}-2-train", run_key(other, TWO, TRAINING, [])
        assert other == "first" or not any(re.fullmatch(OPTIONS.own_runs, key) for key in keys)


def test_a_rank_is_killed_and_a_run_cancelled_in_a_run_that_begins_anew(tmp_path):
    record = Record(tmp_path / "facts.json")
    for status in (1, 25, 0):
        record.set("rank killed", Fact("different", "", status=status))
        record.set("training", Fact("different", "", status=status))
    record.set("rank killed", Fact("begun", ""))
    assert record.tries() == {"rank killed": 2, "training": 2}
    # A rank is killed in an attempt at step 0 alone; a training continues where it was.
    again = steps(OPTIONS, (), record.tries())
    runs = {step.name: step.run for step in again}
    assert (runs["rank killed"], runs["cancel"], runs["training"]) == (
        "first-killed-3", "first-cancelled", "first-train",
    )  # fmt: skip
    assert all(step.run is None or step.run in step.command for step in again)


def test_without_a_data_set_nothing_trains_on_data():
    names = [step.name for step in steps(CommissionOptions(), (), {})]
    assert names == ["preflight", "smoke job", "cluster check", "scaling", "plan"]


@pytest.mark.parametrize("step", ALL, ids=lambda step: step.name)
def test_each_step_is_a_command_that_exists_with_options_that_it_knows(step):
    verb, *rest = step.command
    own = rest[: rest.index("--")] if "--" in rest else rest
    assert read_options(verb, own)
    assert COMMANDS[verb].program or "--" not in rest
    assert step.source.startswith("docs/")


def test_the_data_set_is_read_before_anything_is_paid():
    names = [step.name for step in ALL]
    step = BY_NAME["data set"]
    assert names.index("data set") < names.index("smoke job")
    assert step.hours == step.node_hours(OPTIONS) == 0
    assert step.command[:5] == (
        "preflight", "--preset", "imagenet-ndv2", "--data.asset", "imagenet:3",
    )  # fmt: skip


def test_the_cost_of_a_step_counts_starts_and_idle_minutes_of_all_attempts():
    check = BY_NAME["cluster check"]
    beside = 2 * 3 * (15 + 2) / 60
    assert check.node_hours(OPTIONS) == pytest.approx(check.hours + beside)
    assert all(step.starts >= 3 for step in ALL if step.run or step.name == "scaling")


@pytest.mark.parametrize(
    ("option", "value"),
    [("submit", "timeout-hours=24"), ("submit", "nodes=4"), ("scaling", "attempts=9"),
     ("scaling", "timeout_hours=24"), ("submit", "resubmit.attempts=9"), ("scaling", "nodes=8")],
)  # fmt: skip
def test_no_option_that_raises_the_cost_is_passed_through(option, value):
    with pytest.raises(UserError, match=f"--{option}: .* decides what a step costs"):
        CommissionOptions(**{option: (value,)})
    assert CommissionOptions(**{option: ("poll-seconds=1", "repeat=1")})


def test_a_failed_check_stops_what_costs_more_unless_it_is_expected_to_fail():
    freely = CommissionOptions(despite_check=True)
    needed = {step.name: step.needed for step in steps(freely, (), {})}
    assert not needed["cluster check"]
    assert needed["smoke job"]


def test_a_run_ends_as_its_command_says():
    finding = find("smoke job", 0, ended("training completed", 2))
    assert (finding.good, finding.guess) == (True, True)
    assert finding.text.startswith("training completed, 2 attempts; whether its container reaches")
    finding = find("training", 3, None, "a line\n\nerror: no data\n")
    assert (finding.good, finding.text, finding.guess) == (False, "error: no data", None)


@pytest.mark.parametrize(("reached", "words"), [(True, " reaches "), (False, " does not reach ")])
def test_a_smoke_job_notes_whether_pre_emptions_are_announced_to_its_container(reached, words):
    found = find("smoke job", 0, ended("training completed"), notices=reached)
    assert found.good
    assert f"its container{words}the service that announces pre-emptions" in found.text


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


def test_a_check_shows_what_its_job_has_written():
    lines = ("16 ranks, 8 per node", "InfiniBand works on all nodes")
    good = find("cluster check", 0, check=ClusterCheckResult(good=True, lines=lines))
    assert (good.good, good.guess, good.text) == (True, True, "; ".join(lines))
    poor = find("cluster check", 23, check=ClusterCheckResult(good=False, lines=lines))
    assert (poor.good, poor.guess) == (False, True)
    failed = find("cluster check", 1, ended("failed by its own error"))
    assert (failed.text, failed.guess) == ("failed by its own error, 1 attempt", None)
    unread = find("cluster check", 0, ended("completed"))
    assert (unread.good, unread.guess) == (False, None)
    assert unread.text == "completed, 1 attempt; what it measured was not read"


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
    lost = attempt("Failed", 6, "exited with status code 6")
    done = ended("training completed", 2)
    again = find("rank killed", 0, done, attempts=(lost,), statuses=(6,), starts=(0, 300))
    assert (again.good, again.guess) == (True, True)
    assert again.text == "training completed, 2 attempts; it continued at step 300"
    failed = find("rank killed", 137, ended("failed"), attempts=(attempt("Failed", 137),))
    assert (failed.good, failed.guess) == (True, False)
    anew = find("rank killed", 0, done, attempts=(lost,), statuses=(6,), starts=(0, 0))
    assert (anew.good, anew.text.endswith("it began at the first step")) == (False, True)


@pytest.mark.parametrize(
    ("status", "attempts"),
    [(1, (attempt("Failed", 1),)), (3, (attempt("Failed", 3, "DataError: step 1370"),)), (25, ()),
     (20, (attempt("Canceled"),)), (0, (attempt("Failed", None, "PreemptionError: Nodes"),))],
)  # fmt: skip
def test_a_run_that_ends_for_another_reason_says_nothing_of_a_killed_rank(status, attempts):
    finding = find("rank killed", status, ended("x", 2), attempts=attempts, starts=(0, 100))
    assert (finding.good, finding.guess) == (False, None)
    assert finding.text == "x, 2 attempts; no attempt ended as a killed rank does"


def test_a_cancelled_run_shows_whether_it_had_the_time_to_save():
    done = ended("training completed", 2)
    between = find("cancel", 0, done, starts=(0, 1234))
    assert (between.good, between.guess) == (True, True)
    assert "continued at step 1,234" in between.text
    assert find("cancel", 0, done, starts=(0, 1200)).guess is None
    lost = find("cancel", 0, done, starts=(0, 0))
    assert (lost.good, lost.text) == (
        False, "training completed, 2 attempts; it began at the first step",
    )  # fmt: skip
    assert find("cancel", 1, None, "error: no quota").text == "error: no quota"


def test_a_real_pre_emption_is_noted_if_it_happens():
    taken = attempt("Failed", None, "PreemptionError: Nodes got pre-empted")
    finding = preempted("training", (attempt("Failed", 6), taken))
    assert finding.text == "training: PreemptionError: Nodes got pre-empted"
    assert preempted("training", (attempt("Failed", 6), attempt("Completed"))) is None


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
    rows = {row.step.name: row for row in rows_of(ALL, facts)}
    assert (rows["preflight"].verdict, rows["scaling"].verdict) == ("right", "wrong")
    assert rows["training"].state == rows["pre-emption"].found == NOT_SEEN
    assert rows["plan"].verdict == ""
    page = page_of("dev", "ws", list(rows.values()))
    html = render("jobs.commission", "facts.html", page=page)
    for words in (
        "&lt;below&gt;",
        "guesses that were wrong: scaling",
        "2 of 10 steps seen, ? spent",
    ):
        assert words in html
