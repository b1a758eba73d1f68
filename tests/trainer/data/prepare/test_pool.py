"""Processes of a pool never outlive the work that they share."""

import multiprocessing

import pytest

from trainer.data.prepare import pool
from trainer.data.prepare.pool import work_through


def double(number, advance):
    advance(1)
    return 2 * number


@pytest.mark.parametrize("processes", [1, 2])
def test_each_task_gives_its_result_once(processes):
    with work_through(double, range(10), 10, "doubling", processes) as results:
        assert sorted(results) == list(range(0, 20, 2))


def test_no_process_is_left_when_whoever_takes_the_results_fails():
    def take():
        with work_through(double, range(10), 10, "doubling", 2) as results:
            for _ in results:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        take()
    assert multiprocessing.active_children() == []
    # pytest holds the error, and with it the frame that took the results.
    assert caught.tb is not None


def test_a_signal_at_the_very_end_leaves_no_thread_of_the_pool(monkeypatch):
    managers = []

    class Interrupted(pool.ProcessPoolExecutor):
        """One whose end is interrupted once while it waits for its thread."""

        def shutdown(self, wait=True, *, cancel_futures=False):
            if not managers:
                manager = self._executor_manager_thread
                managers.append(manager)
                join = manager.join

                def interrupt():
                    manager.join = join
                    raise KeyboardInterrupt

                manager.join = interrupt
            super().shutdown(wait, cancel_futures=cancel_futures)

    monkeypatch.setattr(pool, "ProcessPoolExecutor", Interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        work_through(double, range(3), 3, "doubling", 2) as results,
    ):
        assert sorted(results) == [0, 2, 4]
    assert [manager.is_alive() for manager in managers] == [False]
