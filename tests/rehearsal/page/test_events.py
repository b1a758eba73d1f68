"""What happened to the training, in sentences."""

import dataclasses

import pytest

from rehearsal.page.events import events, steps
from rehearsal.page.record import Attempt, NodePool
from tests.rehearsal.support import recorded_cycles
from tests.rehearsal.support.parsed_page import EMPTY, Page


def test_events_tell_of_the_pre_emption_and_where_it_continued():
    told = [event.words for event in events(recorded_cycles.whole())]
    assert told == [
        "Attempt 1 starts: 2 ranks on 2 nodes of gpu-nd40rsv2-lp",
        "Attempt 1: pre-empted at step 160. PreemptionError: Nodes of this job got pre-empted.",
        "Attempt 2 resumes at step 141 and repeats 20 steps",
        "Attempt 2: completed at step 400",
        "gpu-nd40rsv2-lp is scaled down to zero nodes",
    ]
    page = Page(recorded_cycles.whole())
    assert all(sentence in page.seen for sentence in told)
    assert len(page.of("div", "class", "broken")) == 1
    assert len(page.of("span", "class", "cut-line")) == 1


def test_a_failure_of_the_code_is_no_pre_emption():
    broken = Attempt("j", "c", 1, 2, 1001.0, 1010.0, "Failed", "User process exited with 1.", 1, 10)
    cycle = dataclasses.replace(EMPTY, seconds=20.0, attempts=(broken,))
    assert events(cycle)[-1].words == "Attempt 1: failed at step 10. User process exited with 1."
    assert not Page(cycle).of("span", "class", "cut-line")


def test_an_attempt_of_unknown_steps_says_nothing_of_them():
    first = Attempt("j", "c", 1, 1, 1001.0, 1002.0, "Canceled")
    second = Attempt("k", "c", 1, 1, 1003.0, 1004.0, "Completed")
    told = [e.words for e in events(dataclasses.replace(EMPTY, attempts=(first, second)))]
    assert told[1:3] == [
        "Attempt 1: canceled",
        "Attempt 2 starts: 1 rank on 1 node of c",
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
