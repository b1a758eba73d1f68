"""A run's key, and the names of its attempts."""

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import SpecError
from jobs.options import FOLDER, NAME
from jobs.spec.run_key import KEY, RunAttempt, attempt_of, key_problems, new_key
from trainer.config import TrainConfig
from trainer.presets import PRESETS

keys = st.from_regex(KEY, fullmatch=True).filter(lambda key: not key_problems(key))
NOON = datetime(2026, 11, 22, 12, 0, 5)  # noqa: DTZ001


@given(keys, st.integers(1, 99))
def test_an_attempt_is_read_back_from_its_name(key, number):
    attempt = RunAttempt(key, number)
    assert attempt_of(attempt.name) == attempt
    assert re.fullmatch(NAME, attempt.name)
    assert re.fullmatch(FOLDER, attempt.folder)


@given(st.text())
def test_any_other_name_is_no_attempt_or_one_of_that_name(name):
    found = attempt_of(name)
    assert found is None or found.name == name


@given(keys)
def test_the_trainer_takes_a_key_as_the_name_of_its_run(key):
    assert TrainConfig(preset="synthetic", name=key, data=PRESETS["synthetic"].data).name == key


@given(keys, st.integers(1, 98))
def test_attempts_share_the_folder_and_not_the_name(key, number):
    this = RunAttempt(key, number)
    later = this.following()
    assert (later.folder, later.tags["run"]) == (this.folder, key)
    assert later.name != this.name
    assert later.tags["attempt"] == str(number + 1)


@given(keys, keys, st.integers(1, 99), st.integers(1, 99))
def test_attempts_of_two_runs_never_share_a_name(one, other, first, second):
    same = RunAttempt(one, first).name == RunAttempt(other, second).name
    assert same == ((one, first) == (other, second))


@pytest.mark.parametrize(
    "key", ["", "-a", "a.b", "a b", "a/b", "ä", "a" * 101, "run-r1", "run-r12", "latest", "a\n"]
)
def test_other_keys_are_refused_with_the_option_to_change(key):
    with pytest.raises(SpecError, match="--name"):
        RunAttempt(key)


@pytest.mark.parametrize("number", [0, -1, 100])
def test_there_are_at_most_99_attempts(number):
    with pytest.raises(SpecError, match="from 1 to 99"):
        RunAttempt("a", number)


def test_the_key_of_a_nameless_run_tells_what_and_when():
    key = new_key("imagenet-ndv2", NOON, "x7q2")
    assert key == "imagenet-ndv2-20261122-120005-x7q2"
    assert RunAttempt(key).name == f"{key}-r1"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_key(preset):
    assert key_problems(new_key(preset, NOON, "x7q2")) == []
