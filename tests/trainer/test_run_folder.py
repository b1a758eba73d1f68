"""The run folder: its contents, and when a run may be continued."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from trainer.data.manifest import Normalization
from trainer.errors import CheckpointError
from trainer.presets import PRESETS
from trainer.run_folder import RunFolder, RunRecord, check_continues, config_hash, new_name, without
from trainer.training.setup import smaller_micro_batches

DIGITS = PRESETS["digits"]
RECORD = RunRecord(DIGITS, ranks=2, global_batch=64, data_version="abc")


@pytest.fixture
def run(tmp_path):
    """A run of digits on two ranks that exists."""
    folder = RunFolder(tmp_path / "runs" / "first")
    folder.create(RECORD)
    return folder


def continues(run, config=DIGITS, global_batch=64, data_version="abc"):
    """Whether it may; refusals are errors."""
    return check_continues(run, RunRecord(config, 2, global_batch, data_version)) is not None


def refusal(run, **changes):
    with pytest.raises(CheckpointError) as caught:
        continues(run, **changes)
    return str(caught.value)


def with_group(group, **changes):
    return replace(DIGITS, **{group: replace(getattr(DIGITS, group), **changes)})


# 1. Whether a run may be continued.


def test_a_run_that_does_not_exist_may_be_started_and_the_same_continues(run, tmp_path):
    assert continues(RunFolder(tmp_path / "new"))
    assert continues(RunFolder(tmp_path / "new"), config=replace(DIGITS, resume="never"))
    assert continues(run)


def test_a_folder_with_requests_to_a_run_that_starts_may_become_it(tmp_path):
    (tmp_path / ".request-0123456789ab-stacks-0").touch()
    assert continues(RunFolder(tmp_path))


@pytest.mark.parametrize("name", ["timeline.json", "traces/timeline.json"])
def test_a_folder_with_the_timeline_of_a_run_that_starts_may_become_it(tmp_path, name):
    timeline = tmp_path / name
    timeline.parent.mkdir(exist_ok=True)
    timeline.touch()
    assert continues(RunFolder(tmp_path), with_group("exchange", timeline=str(timeline)))
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(CheckpointError, match="is not a run folder"):
        continues(RunFolder(tmp_path), with_group("exchange", timeline=str(timeline)))


def test_resume_never_refuses_a_run_that_exists(run):
    message = refusal(run, config=replace(DIGITS, resume="never"))
    assert f"{run.path}: already exists" in message
    assert "--resume auto" in message


def test_another_configuration_is_refused_with_every_difference(run):
    other = replace(with_group("model", image_size=64, classes=9), epochs=30, seed=1)
    message = refusal(run, config=other)
    assert str(run.path) in message
    assert "--model.image-size: was 16, is now 64" in message
    assert "--model.classes: was None, is now 9" in message
    assert "--seed: was 0, is now 1" in message
    # More epochs alone would be no reason.
    assert message.count(": was ") == 3


def test_all_kinds_of_differences_are_listed_at_once(run):
    message = refusal(run, config=replace(DIGITS, seed=5), global_batch=128, data_version="def")
    assert message.count(": was ") == 3


@pytest.mark.parametrize(
    "changed",
    [
        replace(DIGITS, name="first"),
        replace(DIGITS, runs_dir="elsewhere"),
        replace(DIGITS, preset="synthetic"),
        replace(DIGITS, ranks=4, batch_size=16),
        replace(DIGITS, restarts=9),
        replace(DIGITS, max_steps=3),
        replace(DIGITS, export=False),
        with_group("data", dir="elsewhere", decode_threads=3, prefetch_batches=9),
        with_group("compute", steps_per_loop=7, threads=1),
        with_group("exchange", groups=4, cycle_time_ms=3.0),
        with_group("watchdog", step_seconds=5, startup_seconds=50),
        with_group("evaluation", every_epochs=0, batch_size=5),
        with_group("checkpoint", every_epochs=5, keep=1, keep_best=True),
        with_group("log", every_steps=1, tensorboard_dir="elsewhere"),
    ],
    ids=[
        "name",
        "runs_dir",
        "preset",
        "ranks",
        "restarts",
        "max_steps",
        "export",
        "data",
        "compute",
        "exchange",
        "watchdog",
        "evaluation",
        "checkpoint",
        "log",
    ],
)
def test_what_does_not_decide_the_result_may_change(run, changed):
    assert continues(run, config=changed)


def test_what_is_changed_is_said_but_not_where_things_are(run):
    changed = replace(with_group("log", every_steps=7), runs_dir="elsewhere", max_steps=3)
    assert check_continues(run, replace(RECORD, config=changed)) == [
        f"--log.every-steps: was {DIGITS.log.every_steps}, is now 7",
    ]


def test_what_divides_a_step_in_another_way_is_said_to_change_the_result(run):
    run.create(replace(RECORD, threads=1))
    # A launcher may have started another number of ranks than the option says.
    record = replace(RECORD, config=replace(DIGITS, batch_size=16), ranks=4, threads=2)
    ranks, batch, threads = check_continues(run, record)
    means = "(this changes the result of the run: "
    assert ranks.startswith(f"--ranks: was 2, is now 4 {means}sums are added in another order, and")
    assert batch.startswith(f"--batch-size: was {DIGITS.batch_size}, is now 16 {means}batch norm")
    assert threads.startswith(f"--compute.threads: was 1, is now 2 {means}a CPU adds")
    pieces = replace(RECORD, config=with_group("optimizer", accumulation=2), threads=1)
    (accumulation,) = check_continues(run, pieces)
    assert accumulation.startswith(f"--optimizer.accumulation: was 1, is now 2 {means}batch norm")


def test_the_precision_of_the_exchange_is_said_to_change_the_result(run):
    half = with_group("compute", precision="mixed_float16")
    run.create(replace(RECORD, config=half))
    sent = replace(half, exchange=replace(half.exchange, compression="fp16"))
    (compression,) = check_continues(run, replace(RECORD, config=sent))
    means = "(this changes the result of the run: "
    assert compression.startswith(f"--exchange.compression: was none, is now fp16 {means}gradients")


def test_micro_batches_stay_smaller_once_a_step_did_not_fit_into_memory(tmp_path):
    run = RunFolder(tmp_path / "runs" / "new")
    assert run.accumulation == 1
    run.divide_batches(4)
    assert run.accumulation == 4
    assert not run.exists
    assert check_continues(run, RECORD) == []
    assert smaller_micro_batches(DIGITS, 4).optimizer.accumulation == 4
    assert smaller_micro_batches(with_group("optimizer", accumulation=8), 4) is None
    (run.path / ".out-of-memory.json").write_text("[" * 100_000)
    assert run.accumulation == 1


def test_threads_make_no_difference_on_a_gpu_or_if_they_were_not_stored(run):
    asked = replace(RECORD, config=with_group("compute", threads=2))
    assert check_continues(run, replace(asked, threads=2))
    assert check_continues(run, asked) == ["--compute.threads: was 0, is now 2"]


def test_what_reshapes_the_rest_of_a_run_is_said_to_make_another_result(run):
    longer = replace(with_group("optimizer", learning_rate=0.05), epochs=40)
    assert check_continues(run, replace(RECORD, config=longer)) == [
        "--epochs: was 20, is now 40 (this changes the result of the run)",
        "--optimizer.learning-rate: was 0.4, is now 0.05 (this changes the result of the run)",
    ]


def test_the_hash_of_a_configuration_is_of_what_decides_the_result():
    moved = replace(with_group("log", every_steps=7), runs_dir="elsewhere", ranks=4)
    assert config_hash(moved) == config_hash(DIGITS)
    others = [replace(DIGITS, seed=1), replace(DIGITS, epochs=3), with_group("model", width=8)]
    assert len({config_hash(config) for config in [DIGITS, *others]}) == 4


@pytest.mark.parametrize(
    "changed",
    [
        with_group("data", streams=4),
        with_group("data", shuffle_window=9),
        with_group("model", depth=18),
        with_group("compute", precision="mixed_float16"),
    ],
    ids=["streams", "window", "model", "precision"],
)
def test_what_decides_the_result_may_not_change(run, changed):
    assert refusal(run, config=changed).count(": was ") == 1


def test_another_optimizer_is_refused_with_the_reason(run):
    message = refusal(run, config=with_group("optimizer", kind="lars", nesterov=False))
    assert (
        "--optimizer.kind: was momentum, is now lars (the velocities that one optimizer" in message
    )
    # Without Nesterov's look-ahead alone it would continue.
    assert message.count(": was ") == 1


def test_a_run_of_before_there_were_several_optimizers_is_one_of_momentum(run):
    path = run.path / "config.json"
    stored = json.loads(path.read_text())
    for name in ("kind", "rate_scaling", "end_rate", "trust", "beta1", "beta2", "epsilon"):
        del stored["config"]["optimizer"][name]
    del stored["config"]["model"]["batch_norm_momentum"]
    path.write_text(json.dumps(stored))
    assert check_continues(run, RECORD) == []
    assert refusal(run, config=with_group("optimizer", kind="adamw", nesterov=False))


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    message = refusal(RunFolder(tmp_path))
    assert f"{tmp_path}: exists but is not a run folder" in message


def test_a_file_where_the_run_would_be_is_refused(tmp_path):
    (tmp_path / "first").write_text("years of work")
    assert str(tmp_path / "first") in refusal(RunFolder(tmp_path / "first"))


@pytest.mark.parametrize("text", ["", '{"config": {', '{"model_type": "bert"}', "[]", "null"])
def test_a_folder_whose_config_is_not_a_runs_is_refused(run, text):
    (run.path / "config.json").write_text(text)
    assert str(run.path) in refusal(run)


def test_a_missing_folder_has_no_configuration(tmp_path):
    with pytest.raises(CheckpointError, match=f"{tmp_path}/none: is not a run folder"):
        RunFolder(tmp_path / "none").read()


# 2. Contents of the folder.


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        replace(
            RECORD,
            class_names=("a", "b"),
            normalization=Normalization((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)),
        ),
    ],
    ids=["of a version that kept no class names", "whole"],
)
def test_the_record_of_a_run_comes_back(tmp_path, record):
    run = RunFolder(tmp_path / "run")
    run.create(record)
    assert run.read() == record


def test_options_by_the_names_of_an_earlier_version_are_read(run):
    path = run.path / "config.json"
    stored = json.loads(path.read_text())
    checkpoint = stored["config"]["checkpoint"]
    checkpoint["roll_backs"] = checkpoint.pop("rollbacks") + 2
    path.write_text(json.dumps(stored))
    config = run.read().config
    assert config.checkpoint.rollbacks == DIGITS.checkpoint.rollbacks + 2


def test_latest_points_to_the_newest_run(run):
    latest = run.path.parent / "latest"
    assert latest.resolve() == run.path.resolve()
    RunFolder(run.path.parent / "second").create(RECORD)
    assert latest.resolve() == (run.path.parent / "second").resolve()
    # A run that is continued is the newest again.
    run.point_latest()
    assert latest.resolve() == run.path.resolve()
    assert {path.name for path in run.path.parent.iterdir()} == {"first", "second", "latest"}


def test_latest_still_points_to_the_run_when_all_runs_move(run):
    moved = run.path.parent.rename(run.path.parent.with_name("moved"))
    assert RunFolder(moved / "latest").read() == RECORD


def test_a_folder_called_latest_stays(tmp_path):
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "thesis.txt").write_text("years of work")
    RunFolder(tmp_path / "first").create(RECORD)
    assert (tmp_path / "latest" / "thesis.txt").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"first", "latest"}


def test_a_result_replaces_the_one_before_and_leaves_nothing_else(run):
    run.write_result({"top1": 0.5})
    before = {path.name for path in run.path.iterdir()}
    run.write_result({"top1": 0.6})
    assert json.loads((run.path / "result.json").read_text()) == {"top1": 0.6}
    assert {path.name for path in run.path.iterdir()} == before == {"config.json", "result.json"}


def test_a_result_that_cannot_be_written_leaves_the_one_before(run):
    run.write_result({"top1": 0.5})
    with pytest.raises(TypeError):
        run.write_result({"top1": object()})
    assert json.loads((run.path / "result.json").read_text()) == {"top1": 0.5}


# 3. Names.


def test_a_new_name_is_made_of_preset_and_time():
    now = datetime(2024, 3, 9, 7, 5, 2, 45_999, tzinfo=UTC)
    assert new_name(DIGITS, now) == "digits-20240309-070502-045"
    for preset in PRESETS.values():
        name = new_name(preset, now)
        assert replace(preset, name=name).name == name


def test_comparison_leaves_out_groups_and_single_keys():
    left = without(DIGITS, "data", "model.depth", "seed")
    assert "model.width" in left
    assert not {"model.depth", "seed", "data.dir", "data.streams"} & left.keys()
