"""The log in the form of MLPerf; MLCommons' own checker judges that of a run in conformance/."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from common.errors import ConfigError
from trainer.config import ModelConfig
from trainer.loggers.observer import Observer
from trainer.mlperf.leaf import MlperfOptions
from trainer.mlperf.observer import MlperfObserver, mlperf_observer
from trainer.presets import PRESETS

OPTIONS: Any = {"mlperf": MlperfOptions(log=True, organization="us")}
DIGITS = replace(PRESETS["digits"], **OPTIONS)


def observer(folder, rank=0, config=DIGITS):
    seen = SimpleNamespace(config=config, folder=folder, communicator=SimpleNamespace(rank=rank))
    return mlperf_observer(seen)


def take(observed, step):
    with observed.around(step):
        pass


def log(folder, attempt=1):
    text = (folder / "mlperf" / f"attempt-{attempt}.log").read_text()
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines()]


def follow(folder, status=0, *, failed=False):
    """Follow a run of two epochs with an evaluation after each."""
    observed = observer(folder)
    take(observed, 0)
    observed.begin({"global_batch": 64}, {"trainer.attempt": 1})
    take(observed, 1)
    observed.add("train", 10, {"epoch": 0.5, "loss": 1.0})
    observed.add("evaluation", 20, {"epoch": 1.0, "top1": 0.5})
    take(observed, 20)
    if not failed:
        observed.add("evaluation", 40, {"epoch": 2.0, "top1": 0.75})
    observed.end(status, failed=failed)
    return log(folder)


def keys(lines):
    intervals = [line for line in lines if line["event_type"] != "POINT_IN_TIME"]
    return [line["key"] for line in intervals]


@pytest.fixture
def folder(tmp_path, digits_folder, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "digits").symlink_to(digits_folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_is_blocks_between_evaluations(folder):
    lines = follow(folder)
    block = ["block_start", "block_stop", "eval_start", "eval_stop"]
    assert keys(lines) == ["init_start", "init_stop", "run_start", *block, *block, "run_stop"]
    times = [line["time_ms"] for line in lines]
    assert times == sorted(times)
    by_key = {line["key"]: line for line in lines}
    assert by_key["eval_accuracy"]["value"] == 0.75
    assert by_key["eval_accuracy"]["metadata"] == {"epoch_num": 2}
    assert by_key["submission_org"]["value"] == "us"
    assert by_key["global_batch_size"]["value"] == 64
    assert (by_key["train_samples"]["value"], by_key["eval_samples"]["value"]) == (1437, 360)
    assert by_key["cache_clear"]["value"] is False
    assert by_key["run_stop"]["metadata"] == {"status": "success"}


def test_a_run_that_is_stopped_or_fails_is_aborted(folder):
    lines = follow(folder, 143, failed=True)
    assert keys(lines)[-2:] == ["block_stop", "run_stop"]
    assert lines[-1]["metadata"] == {"status": "aborted"}


def test_nothing_is_written_of_an_attempt_without_steps_on_another_rank_or_unasked(folder):
    observed = observer(folder)
    observed.begin({"global_batch": 64}, {"trainer.attempt": 2})
    observed.add("evaluation", 40, {"epoch": 2.0, "top1": 0.75})
    observed.end(0, failed=False)
    assert not (folder / "mlperf").exists()
    assert not isinstance(observer(folder, rank=1), MlperfObserver)
    assert type(observer(folder, config=PRESETS["digits"])) is Observer


def test_another_network_than_that_of_the_benchmark_is_refused():
    with pytest.raises(ConfigError, match=r"--mlperf\.log: is for the network resnet"):
        replace(DIGITS, model=ModelConfig(network="efficientnet"))
