"""Traces on request: of steps by TensorFlow's profiler, of exchanges by Horovod."""

from dataclasses import replace

import pytest

from common.errors import ConfigError
from tests.trainer.support.command import TINY, final_state
from tests.trainer.support.forked import fork_trainer
from tools.benchmarks.timeline import phases, read_events
from trainer.extras.profiler.leaf import ProfileOptions
from trainer.extras.profiler.observer import Profiler
from trainer.presets import PRESETS


@pytest.mark.parametrize("text", ["5", "5:5", "7:5", "0:5", "a:b", ":", "1:", "-1:5", "1:5:9", ""])
def test_a_span_that_makes_no_sense_is_refused(text):
    with pytest.raises(ConfigError, match=r"--profile\.steps"):
        replace(PRESETS["digits"], profile=ProfileOptions(text))


def test_a_span_is_read_as_steps_done():
    assert ProfileOptions("10:15").span == (10, 15)
    assert ProfileOptions().span is None


def test_calls_end_where_the_span_begins_and_take_one_step_inside_it(tmp_path):
    profiler = Profiler((10, 13), tmp_path, chief=False)
    assert profiler.limit_steps(1, 100) == 9
    assert profiler.limit_steps(1, 5) == 5
    assert [profiler.limit_steps(step, 100) for step in (10, 11, 12)] == [1, 1, 1]
    assert profiler.limit_steps(13, 100) == 100
    assert Profiler(None, tmp_path, chief=True).limit_steps(1, 100) == 100


def test_a_span_that_is_added_begins_at_once_or_after_the_one_in_progress(tmp_path):
    profiler = Profiler((10, 13), tmp_path, chief=False)
    profiler.add(4, 2)
    assert [profiler.limit_steps(step, 100) for step in (4, 5, 6)] == [1, 1, 4]
    profiler.add(11, 2)
    assert [profiler.limit_steps(step, 100) for step in (12, 13, 14, 15)] == [1, 1, 1, 100]


def test_a_profiler_that_fails_does_not_end_the_training(tmp_path):
    (tmp_path / "file").touch()
    profiler = Profiler(None, tmp_path / "file", chief=True)
    profiler.add(1, 1)
    assert not profiler.reached(1)
    assert profiler.reached(2)
    assert profiler.error
    assert not profiler.close()


def test_only_rank_0_records(tmp_path):
    profiler = Profiler((1, 3), tmp_path, chief=False)
    assert not profiler.reached(1)
    assert not profiler.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_profiled_run_leaves_both_traces_and_ends_with_the_same_weights(workplace):
    options = [*TINY, "--epochs", "1", "--compute.threads", "1"]
    plain = fork_trainer("train", *options, "--name", "plain", cwd=workplace)
    assert plain.returncode == 0, plain.stderr
    traces = ["--profile.steps", "8:11", "--exchange.timeline", "traces/timeline.json"]
    traced = fork_trainer("train", *options, "--name", "traced", *traces, cwd=workplace)
    assert traced.returncode == 0, traced.stderr
    assert (
        "the profile is in runs/traced/profile; to view it, run: make -C tools profile"
        in traced.stdout
    )
    assert final_state(workplace / "runs/traced") == final_state(workplace / "runs/plain")

    (trace,) = (workplace / "runs/traced/profile").rglob("*.xplane.pb")
    content = trace.read_bytes()
    assert b"gradients0" in content
    assert b"step_num" in content

    found = phases(read_events((workplace / "traces/timeline.json").read_text()))
    steps = len(found["NEGOTIATE_ALLREDUCE"])
    assert {"GLOO_ALLREDUCE", "MEMCPY_IN_FUSION_BUFFER"} <= found.keys()
    # Every exchange but perhaps the last, which may not be written out any more.
    assert steps >= 20
    assert all(milliseconds > 0 for milliseconds in found["GLOO_ALLREDUCE"])
