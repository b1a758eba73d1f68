"""From tasks of Spark to ranks, and from their ends to a status: without Spark."""

from dataclasses import replace
from pathlib import Path

import pytest

from common.errors import ConfigError
from trainer.data.prepare.options import PrepareFolderOptions, PrepareWebdatasetOptions
from trainer.distributed.failures import Failure
from trainer.distributed.rank import launched_as
from trainer.distributed.restart_policy import decide_restart
from trainer.extras.spark.world import (
    LOST,
    RankEnd,
    TaskNode,
    absolute_paths,
    attempt_result,
    cancelled,
    causes,
    for_executors,
    lost_executor,
    rank_of,
    reason,
)
from trainer.presets import PRESETS, parse_train, to_args


def tasks(*nodes):
    return [TaskNode(task, f"10.0.0.{node}", f"node {node}") for task, node in enumerate(nodes)]


def ranks(*nodes):
    found = [rank_of(tasks(*nodes), task) for task in range(len(nodes))]
    return [(own.rank, own.local_rank, own.node) for own in found]


# 1. Ranks.


def test_ranks_fill_one_node_after_the_other():
    assert ranks(7, 7, 3, 3) == [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)]
    assert ranks(7, 3, 3, 7) == [(0, 0, 0), (2, 0, 1), (3, 1, 1), (1, 1, 0)]


@pytest.mark.parametrize("nodes", [(1,), (1, 1), (1, 2), (2, 1, 1, 2), (3, 1, 2, 1, 2, 3)])
def test_task_0_is_rank_0_and_every_rank_is_there_once(nodes):
    found = ranks(*nodes)
    assert found[0] == (0, 0, 0)
    assert sorted(rank for rank, *_ in found) == list(range(len(nodes)))


def test_unequal_numbers_of_ranks_are_refused_with_the_nodes():
    with pytest.raises(ConfigError, match=r"2 on 10\.0\.0\.1, 1 on 10\.0\.0\.2"):
        rank_of(tasks(1, 1, 2), 0)


def test_the_environment_is_one_that_the_trainer_knows():
    env = rank_of(tasks(1, 2, 1, 2), 3).environment(4000)
    launched = launched_as(env)
    assert (launched.rank, launched.size) == (3, 4)
    assert (launched.local_rank, launched.local_size) == (1, 2)
    assert (env["HOROVOD_CROSS_RANK"], env["HOROVOD_CROSS_SIZE"]) == ("1", "2")
    assert env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.1"
    assert env["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "4000"
    assert "HOROVOD_GLOO_IFACE" not in env


def test_ranks_of_one_node_meet_on_its_loopback_address():
    env = rank_of(tasks(1, 1), 1).environment(4000)
    assert env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "127.0.0.1"
    assert env["HOROVOD_GLOO_IFACE"] == "lo"


# 2. Ends.


def end(rank, status, ended, **more):
    return RankEnd(rank, f"10.0.0.{rank}", status, ended, **more)


def test_statuses_are_in_the_order_of_ends_without_killed_ranks():
    crash = Failure(1, 5, 1, explained=False, what="KeyError in feed.py, line 7")
    ends = [end(0, 6, 12.0), end(1, 1, 11.0, failures=(crash,)), end(2, None, 27.0)]
    result = attempt_result(ends)
    assert result.statuses == (1, 6)
    assert result.failures == (crash,)
    assert result.status == 1
    assert causes(ends) == [ends[1]]


def test_a_rank_that_lost_its_peer_or_was_stopped_is_no_cause():
    assert causes([end(0, 0, 1.0), end(1, 6, 2.0), end(2, 143, 3.0), end(3, 8, 3.0)]) == []


def test_failed_ranks_are_told_in_the_order_of_their_ends():
    ends = [end(0, 1, 5.0), end(1, -9, 4.0), end(2, None, 20.0), end(3, 1, 6.0)]
    assert [each.rank for each in causes(ends)] == [1, 0, 3]


def test_a_lost_executor_is_followed_by_a_restart():
    lost = replace(attempt_result([]), statuses=(LOST,))
    assert decide_restart([lost], 3).restart
    assert lost.status == 137


LOST_EXECUTOR = """An error occurred while calling o50.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a \
failed barrier ResultStage. Most recent failure reason: Stage failed because barrier task \
ResultTask(0, 1) finished unsuccessfully.
ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited \
with code 137
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2898)
"""
NO_TRAINER = """An error occurred while calling o50.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/worker.py", line 100, in read_command
ModuleNotFoundError: No module named 'trainer'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.read(PythonRunner.scala:561)
"""


def test_what_spark_says_is_told_apart_and_shortened():
    assert lost_executor(LOST_EXECUTOR)
    assert not lost_executor(NO_TRAINER)
    assert reason(LOST_EXECUTOR).startswith("ExecutorLostFailure")
    assert reason(NO_TRAINER) == "ModuleNotFoundError: No module named 'trainer'"
    assert reason("") == "unknown"


@pytest.mark.parametrize(
    "message",
    [
        "org.apache.spark.SparkException: Job 7 cancelled part of cancelled job group training",
        "[SPARK_JOB_CANCELLED] Job 0 cancelled  SQLSTATE: XXKDA",
        "Job cancelled because SparkContext was shut down",
    ],
)
def test_a_job_that_somebody_has_cancelled_is_no_lost_executor(message):
    assert cancelled(message)
    assert not cancelled(LOST_EXECUTOR)


# 3. Arguments.


@pytest.mark.parametrize("preset", ["digits", "images", "synthetic"])
def test_folders_become_those_of_the_driver(preset):
    config = for_executors(PRESETS[preset], 4, Path("/work"))
    assert config.ranks == 4
    assert config.runs_dir == "/work/runs"
    expected = {"digits": "/work/data/digits", "images": "/work/data/images", "synthetic": None}
    assert config.data.dir == expected[preset]
    assert parse_train(to_args(config)) == config


def test_absolute_folders_and_other_options_stay():
    config = PRESETS["images"]
    data = replace(config.data, dir="/mnt/images")
    model = replace(config.model, weights="start.safetensors")
    changed = for_executors(replace(config, data=data, model=model), 2, Path("/work"))
    assert changed.data.dir == "/mnt/images"
    assert changed.model.weights == "/work/start.safetensors"
    assert changed.optimizer == config.optimizer


def test_paths_of_a_preparation_become_absolute():
    options = absolute_paths(PrepareFolderOptions(input="photos", seed=3), Path("/work"))
    assert options == PrepareFolderOptions(input="/work/photos", output="/work/data/images", seed=3)
    archives = absolute_paths(PrepareWebdatasetOptions(input=("a", "/b")), Path("/w"))
    assert (archives.input, archives.class_names) == (("/w/a", "/b"), None)
    assert archives.label_field == PrepareWebdatasetOptions().label_field
