"""Which checkpoints stay."""

from hypothesis import given
from hypothesis import strategies as st

from trainer.checkpoints.names import Key, checkpoint_name, highest_attempt, key_of
from trainer.checkpoints.retention_policy import Entry, to_delete


def entries(*facts):
    """Of the first attempt: steps, or (step, top1)."""
    return [
        Entry(Key(1, fact), "valid")
        if isinstance(fact, int)
        else Entry(Key(1, fact[0]), "valid", fact[1])
        for fact in facts
    ]


def gone(checkpoints, keep, *, keep_best=False, keep_every=0):
    found = to_delete(checkpoints, keep, keep_best=keep_best, keep_every_steps=keep_every)
    return [entry.key.step for entry in found]


def test_all_but_the_newest_go_the_oldest_first():
    assert gone(entries(3, 1, 4, 2), 2) == [1, 2]


def test_the_newest_stays_whatever_is_asked():
    assert gone(entries(1, 2), 0) == [1]


def test_the_first_of_each_stretch_of_steps_stays_as_history():
    assert gone(entries(50, 100, 150, 201, 250, 399, 410, 420), 1, keep_every=100) == [50, 150, 250]


def test_history_is_the_same_however_often_it_is_asked_for():
    left = []
    for step in range(7, 1000, 7):
        left.append(step)
        doomed = gone(entries(*left), 1, keep_every=100)
        left = [step for step in left if step not in doomed]
    assert left == [105, 203, 301, 406, 504, 602, 700, 805, 903, 994]


def test_the_best_stays_and_of_equals_the_newest():
    assert gone(entries((1, 0.9), (2, 0.9), (3, 0.1), 4), 1, keep_best=True) == [1, 3]


def test_what_is_damaged_neither_counts_nor_goes():
    damaged = [Entry(Key(1, step), "damaged", 0.99) for step in (5, 15, 50)]
    assert gone([*entries(10, 20, 30), *damaged], 2, keep_best=True) == [10]


def test_what_earlier_attempts_did_not_finish_goes_if_there_is_a_newer_one():
    unfinished = [
        Entry(Key(attempt, step), "incomplete") for attempt, step in ((0, 3), (1, 90), (2, 15))
    ]
    valid = [Entry(Key(2, 20), "valid")]
    assert gone([*unfinished, *valid], 3) == [3, 90]
    assert gone(unfinished, 3) == []


@given(
    st.lists(
        st.builds(
            Entry,
            st.builds(Key, st.integers(1, 3), st.integers(1, 20)),
            st.sampled_from(["valid", "damaged", "incomplete"]),
            st.none() | st.sampled_from([0.1, 0.5, 0.9]),
        ),
        max_size=10,
        unique_by=lambda entry: entry.key,
    ),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 5),
)
def test_what_is_asked_for_stays_and_nothing_else(checkpoints, keep, keep_best, keep_every):
    doomed = to_delete(checkpoints, keep, keep_best=keep_best, keep_every_steps=keep_every)
    valid = sorted((e for e in checkpoints if e.state == "valid"), key=lambda e: e.key)
    left = [entry for entry in valid if entry not in doomed]
    assert left[-keep:] == valid[-keep:]
    best = max((e.score for e in valid if keep_best and e.score is not None), default=None)
    assert best is None or best in [entry.score for entry in left]
    stretches = [keep_every and entry.key.step // keep_every for entry in valid]
    for entry in left[:-keep]:
        stretch = stretches[valid.index(entry)]
        first = stretch and valid[stretches.index(stretch)] == entry
        assert entry.score == best is not None or first
    assert not any(entry.state == "damaged" for entry in doomed)
    # Nothing is deleted while the remainder would be worse: the newest goes last, if at all.
    order = [entry.key for entry in doomed if entry.state == "valid"]
    assert order == sorted(order)


def test_names_are_read_as_they_are_written():
    for key in (Key(1, 7), Key(12, 10**10), Key(0, 460)):
        assert key_of(checkpoint_name(key)) == key
    strange = ["step-7.a1", "step-0000000007.a0", "step-0000000007.a01", ".step-0000000007.partial"]
    assert [key_of(name) for name in strange] == [None] * 4


def test_the_latest_attempt_is_known_by_any_trace():
    assert highest_attempt([]) == 0
    assert highest_attempt(["step-0000000460", "index.json"]) == 0
    assert (
        highest_attempt(["attempt-0000000002", "step-0000000007.a10", "step-0000000900.a3"]) == 10
    )
