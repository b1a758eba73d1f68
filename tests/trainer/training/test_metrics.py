"""Timing and figures of a run, under a clock that stands still unless told otherwise."""

from contextlib import contextmanager

import pytest

from trainer.training.loop import LoopReport
from trainer.training.metrics import Interval, Phase, PhaseTimer, Totals


class Clock:
    """Seconds that only pass by `sleep`."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def report(images=0, loss=0.0, score=0.0, wait=0.0, skipped=0, norm=1.0):
    return LoopReport(
        steps=1,
        loss=loss,
        score=score,
        plain_loss=loss * images,
        images=images,
        gradient_norm=norm,
        wait_seconds=wait,
        skipped_steps=skipped,
        stopped=False,
        paused=False,
        bad_step=None,
    )


def summary(interval, flops=0.0, peak=None):
    return interval.summary(interval.plain_loss, flops, peak)


# 1. The clock.


def test_each_phase_counts_its_own_seconds():
    clock = Clock()
    timer = PhaseTimer(clock=clock)
    phases: list[tuple[Phase, int]] = [
        ("compile", 30),
        ("train", 10),
        ("evaluation", 5),
        ("train", 7),
    ]
    for name, seconds in phases:
        with timer.phase(name):
            clock.sleep(seconds)
        clock.sleep(100)
    assert timer.by_phase == {"compile": 30, "train": 17, "evaluation": 5}
    assert timer.total == 52


def test_who_watches_learns_of_each_phase_and_of_its_end_even_if_it_fails():
    seen = []

    @contextmanager
    def watch(name):
        seen.append(f"{name} begins")
        try:
            yield
        finally:
            seen.append(f"{name} ends")

    clock = Clock()
    timer = PhaseTimer(watch, clock)

    def fail():
        with timer.phase("checkpoint"):
            seen.append("writes")
            clock.sleep(3)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert seen == ["checkpoint begins", "writes", "checkpoint ends"]
    assert timer.seconds("checkpoint") == 3


def test_seconds_go_on_from_those_of_an_earlier_attempt():
    clock = Clock()
    earlier = {"train": 40.0, "compile": 9.0}
    totals = Totals(PhaseTimer(clock=clock), 64)
    totals.restore({**totals.to_meta(7), "seconds": earlier})
    with totals.timer.phase("train"):
        clock.sleep(2)
    assert totals.timer.seconds("train") == 42.0
    assert totals.timer.total == 51.0
    assert earlier == {"train": 40.0, "compile": 9.0}


def test_batches_that_were_rolled_back_over_are_used_up():
    totals = Totals(PhaseTimer(), 64)
    assert totals.position(10) == 640
    totals.roll_back(13, 10)
    assert (totals.position(10), totals.rollbacks) == (13 * 64, 1)
    again = Totals(PhaseTimer(), 64)
    again.restore(totals.to_meta(10))
    assert again.to_meta(10) == totals.to_meta(10)


# 2. The figures of an interval.


def test_images_a_second_count_training_seconds_only():
    clock = Clock()
    timer, interval = PhaseTimer(clock=clock), Interval(1, "train_top1")
    with timer.phase("compile"):
        clock.sleep(30)
    interval.add(report(images=100), None, 100)
    others: tuple[Phase, ...] = ("evaluation", "checkpoint")
    for other in others:
        before = timer.seconds("train")
        with timer.phase("train"):
            clock.sleep(4)
        interval.add(report(images=100), timer.seconds("train") - before, 100)
        with timer.phase(other):
            clock.sleep(50)
    assert summary(interval)["images_per_second"] == 200 / 8


def test_rates_are_left_out_when_only_the_first_step_was_taken():
    interval = Interval(1, "train_top1")
    interval.add(report(images=100, wait=3.0), None, 100)
    values = summary(interval, 1e9, 1e12)
    assert values.keys() == {"loss", "training_loss", "train_top1", "gradient_norm"}


def test_data_wait_is_the_part_of_the_training_seconds():
    interval = Interval(2, "train_top1")
    interval.add(report(images=10, wait=50.0), None, 10)
    interval.add(report(images=10, wait=0.5), 6.0, 10)
    interval.add(report(images=10, wait=1.5), 4.0, 10)
    assert summary(interval)["data_wait_percent"] == pytest.approx(20.0)


def test_mfu_is_the_part_of_the_peak_of_all_ranks():
    interval = Interval(4, "train_top1")
    interval.add(report(images=1000), 2.0, 1000)
    # 500 images a second x 24 GFLOP = 12 TFLOP a second, of 4 x 15.
    assert summary(interval, 24e9, 15e12)["mfu_percent"] == pytest.approx(20.0)
    assert "mfu_percent" not in summary(interval, 24e9, None)
    assert summary(interval)["images_per_second_per_rank"] == 125.0


def test_loss_and_accuracy_are_weighted_by_images():
    interval = Interval(1, "train_top1")
    interval.add(report(images=30, loss=2.0, score=0.5), None, 30)
    interval.add(report(images=10, loss=4.0, score=0.9), 1.0, 10)
    values = summary(interval)
    assert values["loss"] == pytest.approx((30 * 2.0 + 10 * 4.0) / 40)
    assert values["train_top1"] == pytest.approx((30 * 0.5 + 10 * 0.9) / 40)


def test_images_left_out_are_counted_and_still_timed():
    interval = Interval(1, "train_top1")
    interval.add(report(images=97, loss=1.0), 2.0, 100)
    values = summary(interval)
    assert values["images_left_out"] == 3
    assert values["images_per_second"] == 50.0
    interval.reset()
    interval.add(report(images=0), 2.0, 100)
    assert summary(interval)["loss"] == 0.0


def test_a_reset_forgets_everything():
    interval = Interval(1, "train_top1")
    for norm, skipped in ((5.0, 2), (2.0, 1)):
        interval.add(report(images=8, loss=9.0, wait=1.0, skipped=skipped, norm=norm), 1.0, 10)
    values = summary(interval)
    # The norm is that of the last step.
    assert (values["gradient_norm"], values["skipped_steps"]) == (2, 3)
    interval.reset()
    interval.add(report(images=4, loss=1.0), 2.0, 4)
    assert summary(interval) == {
        "loss": 1.0,
        "training_loss": 1.0,
        "train_top1": 0.0,
        "gradient_norm": 1.0,
        "images_per_second": 2.0,
        "images_per_second_per_rank": 2.0,
        "data_wait_percent": 0.0,
    }
