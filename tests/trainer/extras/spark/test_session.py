"""The requirements on a session of Spark, with stand-ins for its context."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from common.errors import ConfigError, UserError
from trainer.extras.spark import session
from trainer.extras.spark.session import check_allocation, get_context, get_session, wait_for_slots


def context_of(slots):
    """A context whose executors come one after the other."""
    counts = iter(slots)
    scala = SimpleNamespace(
        maxNumConcurrentTasks=lambda _: next(counts),
        resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=lambda: None),
    )
    return SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala))


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only by sleeping."""
    time = SimpleNamespace(now=0.0)
    time.monotonic = lambda: time.now
    time.sleep = lambda seconds: setattr(time, "now", time.now + seconds)
    monkeypatch.setattr(session, "time", time)
    return time


def test_executors_that_are_still_starting_are_awaited(clock):
    wait_for_slots(context_of([0, 1, 1, 2]), 2, 10.0)
    assert clock.now == 1.5


def test_too_few_slots_are_refused_with_what_to_ask_for(clock):
    with pytest.raises(ConfigError, match=r"2 ranks, but Spark has 1 slot after 10 s; ask for"):
        wait_for_slots(context_of([1] * 100), 2, 10.0)
    assert clock.now < 11


def test_a_long_wait_shows_what_is_missing(clock, capsys):
    wait_for_slots(context_of([1] * 50 + [2]), 2, 60.0)
    assert capsys.readouterr().out == "waiting for executors: 1 of 2 slots\n" * 2


def test_a_request_to_stop_ends_the_wait(clock):
    wait_for_slots(context_of([1] * 100), 2, 600.0, lambda: clock.now > 3)
    assert clock.now < 5


@pytest.mark.parametrize(("value", "refused"), [("true", True), ("false", False), (None, False)])
def test_dynamic_allocation_is_refused_with_what_to_set(value, refused):
    settings = {} if value is None else {"spark.dynamicAllocation.enabled": value}
    context = SimpleNamespace(getConf=lambda: settings)
    if not refused:
        check_allocation(context)
        return
    with pytest.raises(ConfigError, match=r"set it to false, and spark\.executor\.instances"):
        check_allocation(context)


def test_a_session_without_a_context_is_refused_with_what_to_use():
    class Connect:
        @property
        def sparkContext(self):  # noqa: N802
            raise AttributeError("not supported on Spark Connect")

    with pytest.raises(UserError, match="a cluster of a single user"):
        get_context(Connect())


def stand_in_for_pyspark(monkeypatch, session_type):
    packages = {"pyspark": ModuleType("pyspark"), "pyspark.sql": ModuleType("pyspark.sql")}
    packages["pyspark.sql"].SparkSession = session_type
    for name, module in packages.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("master", "configured", "used"),
    [
        ("local[2]", None, sys.executable),
        ("local-cluster[2,1,1024]", None, sys.executable),
        ("local[2]", "/opt/python", "/opt/python"),
        ("spark://somewhere:7077", None, "python3"),
    ],
)
def test_tasks_on_this_machine_run_in_the_python_of_the_command(
    monkeypatch, master, configured, used
):
    """Whatever python3 is first on the path, unless PYSPARK_PYTHON names one."""
    context = SimpleNamespace(master=master, pythonExec=configured or "python3")
    builder = SimpleNamespace(getOrCreate=lambda: SimpleNamespace(sparkContext=context))
    builder.appName = lambda _: builder
    stand_in_for_pyspark(monkeypatch, SimpleNamespace(builder=builder))
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    monkeypatch.setenv("MASTER", master)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if configured:
        monkeypatch.setenv("PYSPARK_PYTHON", configured)
    assert get_session().sparkContext.pythonExec == used


def test_without_java_it_says_what_to_install(monkeypatch):
    stand_in_for_pyspark(monkeypatch, None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="openjdk-17-jre-headless"):
        get_session()


def test_without_pyspark_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UserError, match=r"locks/spark-4\.txt"):
        get_session()


def test_public_names_are_imported_from_the_package():
    from trainer.extras.spark import HorovodRunner, driver, on_spark, preparation, run, runner

    assert run is driver.run
    assert HorovodRunner is runner.HorovodRunner
    assert on_spark is preparation.on_spark
    with pytest.raises(ImportError, match="walk"):
        from trainer.extras.spark import walk  # noqa: F401
