"""A job in parallel with the main thread, with stand-ins for Spark."""

import os
import signal
import sys
import threading
from types import ModuleType

import pytest

from trainer.extras.spark.job import Job


class Context:
    """A context whose jobs run until their group is cancelled."""

    def __init__(self):
        self.groups, self.cancelled = [], threading.Event()

    def setJobGroup(self, group, what, interruptOnCancel):  # noqa: N802, N803
        self.groups.append(group)

    def cancelJobGroup(self, group):  # noqa: N802
        if group in self.groups:
            self.cancelled.set()

    def action(self):
        assert self.cancelled.wait(60)
        raise RuntimeError("Job 0 cancelled")


@pytest.fixture
def context(monkeypatch):
    module = ModuleType("pyspark")
    module.InheritableThread = threading.Thread
    monkeypatch.setitem(sys.modules, "pyspark", module)
    return Context()


def test_a_job_tells_what_its_action_returned(context):
    with Job(context, "training", lambda: 5) as job:
        assert job.wait(60)
    assert (job.result, job.error, context.cancelled.is_set()) == (5, None, False)


def test_a_signal_during_the_wait_cancels_the_job(context, request):
    # Python's own handler: a test before this one may have left another.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt), Job(context, "training", context.action) as job:
        job.wait(60)
    assert context.cancelled.is_set()
    assert "cancelled" in str(job.error)


def test_a_signal_that_also_ended_spark_itself_arrives_as_it_is(context, monkeypatch):
    """SIGTERM to the process group, as a batch system sends it, ends the JVM before the driver."""

    def stopped(_):
        raise RuntimeError("Cannot call methods on a stopped SparkContext")

    monkeypatch.setattr(context, "cancelJobGroup", stopped)
    try:
        with pytest.raises(KeyboardInterrupt), Job(context, "training", context.action):
            raise KeyboardInterrupt
    finally:
        context.cancelled.set()
