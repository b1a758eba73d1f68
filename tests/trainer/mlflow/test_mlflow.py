"""MLflow gets rank 0's metrics, and training neither waits for it nor fails with it.

MLflow itself is in the images only; a package of its name that writes down what it is asked stands
for it.
"""

import json
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.errors import UserError
from tests.trainer.support.command import TINY, metrics
from tests.trainer.support.forked import fork_trainer
from trainer.errors import NonFiniteError
from trainer.loggers.observer import Observed
from trainer.mlflow.logger import CAPACITY, LARGEST_BATCH, MlflowLogger, mlflow_logger

TIMEOUT = 30

MLFLOW = {
    "__init__": "",
    "entities": "Metric = Param = RunTag = lambda *values: values\n",
    "tracking": """
import json, os
from types import SimpleNamespace

class MlflowClient:
    def _note(self, *what):
        with open(os.environ["MLFLOW_TRACKING_URI"], "a") as file:
            file.write(json.dumps(what) + "\\n")

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id="17") if name == "there" else None

    def create_experiment(self, name):
        self._note("experiment", name)
        return "18"

    def create_run(self, experiment, run_name):
        self._note("run", experiment, run_name)
        return SimpleNamespace(info=SimpleNamespace(run_id="new"))

    def log_batch(self, run, metrics=(), params=(), tags=(), synchronous=None):
        self._note("batch", run, metrics, params, tags)

    def set_tag(self, run, key, value):
        self._note("tag", run, key, value)

    def set_terminated(self, run, status):
        self._note("end", run, status)
""",
}


class Recorder:
    """A client that remembers, and does as it is told."""

    def __init__(self, fail=0, hold=None):
        self.calls, self.sent, self._fail, self._hold = [], [], fail, hold

    def describe(self, parameters, tags):
        self.calls.append(("describe", dict(parameters), dict(tags)))

    def send(self, points):
        if self._hold is not None:
            assert self._hold.wait(TIMEOUT)
        self.calls.append(("send", len(points)))
        if self._fail:
            self._fail -= 1
            raise ConnectionError("no route to the server")
        self.sent += points

    def end(self, exit_status, *, failed):
        self.calls.append(("end", exit_status, failed))


@contextmanager
def ending(logger, status=0):
    """A logger whose attempt ends with the block, by an exit status or an error."""
    try:
        yield logger
    except UserError as error:
        logger.end(error.exit_code, failed=True)
        raise
    logger.end(status, failed=False)


def began(client, status=0, **options):
    logger = MlflowLogger(lambda: client, **{"flush_seconds": TIMEOUT, **options})
    logger.begin({}, {})
    return ending(logger, status)


def logger_of(name, rank=0):
    """The logger of a run, on a rank."""
    world = SimpleNamespace(rank=rank)
    return ending(mlflow_logger(Observed(None, Path("runs", name), world, None, None, print)))


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """The stand-in on the path; returns what it was asked."""
    package = tmp_path / "packages" / "mlflow"
    package.mkdir(parents=True)
    for name, text in MLFLOW.items():
        (package / f"{name}.py").write_text(text)
    notes = tmp_path / "notes.jsonl"
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(notes))
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    yield lambda: [json.loads(line) for line in notes.read_text().splitlines()]
    for name in [name for name in sys.modules if name.split(".")[0] == "mlflow"]:
        del sys.modules[name]


def test_the_chosen_metrics_are_sent_by_step_after_what_the_run_is():
    client = Recorder()
    with ending(MlflowLogger(lambda: client, TIMEOUT)) as sent:
        sent.begin({"epochs": 3}, {"trainer.attempt": 2})
        sent.add("train", 5, {"loss": 2.5, "gradient_norm": 1.0, "images_per_second": 100.0})
        sent.add("train", 10, {"loss": float("inf"), "learning_rate": 0.1})
        sent.add("evaluation", 10, {"top1": 0.5, "validation_loss": 1.0, "epoch": 2.0})
    tags = {"trainer.attempt": 2, "trainer.exit_status": "running"}
    assert client.calls[0] == ("describe", {"epochs": 3}, tags)
    assert client.calls[-1] == ("end", 0, False)
    assert [(point.key, point.step, point.value) for point in client.sent] == [
        ("train/loss", 5, 2.5),
        ("train/images_per_second", 5, 100.0),
        ("train/learning_rate", 10, 0.1),
        ("evaluation/top1", 10, 0.5),
        ("evaluation/validation_loss", 10, 1.0),
    ]


def test_reporting_does_not_wait_for_the_server_and_sends_in_batches_later():
    answering = threading.Event()
    client = Recorder(hold=answering)
    with began(client) as sent:
        for step in range(1500):
            sent.add("train", step, {"loss": 1.0, "learning_rate": 0.1})
        assert client.sent == []
        answering.set()
    assert [point.step for point in client.sent[::2]] == list(range(1500))
    sizes = [call[1] for call in client.calls if call[0] == "send"]
    assert sum(sizes) == 3000
    assert LARGEST_BATCH in sizes
    assert max(sizes) == LARGEST_BATCH


def test_what_waits_is_bounded_and_what_is_left_out_is_said(capsys):
    answering = threading.Event()
    client = Recorder(hold=answering)
    with began(client) as sent:
        for step in range(CAPACITY + LARGEST_BATCH + 100):
            sent.add("train", step, {"loss": 1.0})
        answering.set()
    assert CAPACITY <= len(client.sent) <= CAPACITY + LARGEST_BATCH
    assert "values were not sent, because the server was too slow" in capsys.readouterr().err


def test_a_server_that_fails_is_told_once_and_asked_again(capsys):
    client = Recorder(fail=2)
    with began(client) as sent:
        for step in range(4):
            sent.add("train", step, {"loss": 1.0})
            while len([call for call in client.calls if call[0] == "send"]) <= step:
                threading.Event().wait(0.001)
    assert [point.step for point in client.sent] == [2, 3]
    error = capsys.readouterr().err
    assert error.count("warning:") == 1
    assert "MLflow: ConnectionError: no route to the server; the run continues" in error


def test_a_server_that_cannot_be_reached_costs_a_warning(capsys):
    def refuse():
        raise ConnectionError("no route to the server")

    with ending(MlflowLogger(refuse, TIMEOUT)) as sent:
        sent.begin({}, {})
        sent.add("train", 1, {"loss": 1.0})
    assert "no route to the server" in capsys.readouterr().err


def test_the_end_waits_for_a_server_that_hangs_only_so_long(capsys):
    answering = threading.Event()
    with began(Recorder(hold=answering), flush_seconds=0.1) as sent:
        sent.add("train", 1, {"loss": 1.0})
    assert "the last metrics could not be sent within 0.1 s" in capsys.readouterr().err
    answering.set()


def test_an_attempt_that_fails_sends_what_it_has_and_its_exit_status():
    client = Recorder()

    def train():
        with began(client) as sent:
            sent.add("train", 1, {"loss": 1.0})
            raise NonFiniteError("x")

    with pytest.raises(NonFiniteError):
        train()
    assert len(client.sent) == 1
    assert client.calls[-1] == ("end", 5, True)


def test_an_attempt_that_is_stopped_ends_with_its_status_and_has_not_failed():
    client = Recorder()
    with began(client, status=143):
        assert not client.sent
    assert client.calls[-1] == ("end", 143, False)


@pytest.mark.parametrize("lacks", ["server", "package", "rank 0"])
def test_elsewhere_nothing_is_loaded_or_started(lacks, mlflow, monkeypatch):
    if lacks == "server":
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
    if lacks == "package":
        monkeypatch.setattr("trainer.mlflow.logger.find_spec", lambda name: None)
    before = threading.active_count()
    with logger_of("first", rank=int(lacks == "rank 0")) as sent:
        sent.begin({}, {})
        sent.add("train", 1, {"loss": 1.0})
        assert threading.active_count() == before
    assert "mlflow" not in sys.modules


def test_the_run_that_the_environment_names_is_added_to_and_not_ended(mlflow, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "job-r1")
    with logger_of("first") as sent:
        sent.begin({"epochs": 3}, {"trainer.run": "first"})
        sent.add("train", 5, {"loss": 2.5})
    tags, parameters, points, end = mlflow()
    named = [["trainer.run", "first"], ["trainer.exit_status", "running"]]
    assert tags == ["batch", "job-r1", [], [], named]
    assert end == ["tag", "job-r1", "trainer.exit_status", "0"]
    assert parameters == ["batch", "job-r1", [], [["epochs", "3"]], []]
    ((key, value, milliseconds, step),) = points[2]
    assert (key, value, step) == ("train/loss", 2.5, 5)
    assert milliseconds > 1.7e12


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, [["run", "0", "first"]]),
        ({"MLFLOW_EXPERIMENT_ID": "5"}, [["run", "5", "first"]]),
        ({"MLFLOW_EXPERIMENT_NAME": "there"}, [["run", "17", "first"]]),
        ({"MLFLOW_EXPERIMENT_NAME": "not"}, [["experiment", "not"], ["run", "18", "first"]]),
    ],
)
def test_without_a_named_run_one_is_made_and_ended(variables, asked, mlflow, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with logger_of("first") as sent:
        sent.begin({}, {})
    assert mlflow()[: len(asked)] == asked
    assert mlflow()[-1] == ["end", "new", "FINISHED"]


@pytest.mark.slow
def test_a_training_of_two_ranks_is_sent_once(mlflow, workplace):
    env = {
        "PYTHONPATH": str(workplace / "packages"),
        "MLFLOW_TRACKING_URI": str(workplace / "notes.jsonl"),
        "MLFLOW_RUN_ID": "job-r1",
    }
    args = ("train", *TINY, "--name", "first", "--max-steps", "20")
    done = fork_trainer(*args, cwd=workplace, env=[env, env])
    assert done.returncode == 0, done.stderr
    run = workplace / "runs" / "first"
    tags, parameters, *batches, end = mlflow()
    assert end == ["tag", "job-r1", "trainer.exit_status", "0"]
    assert {"trainer.run": "first", "trainer.attempt": "1"}.items() <= dict(tags[4]).items()
    chosen = dict(parameters[3])
    assert {"preset": "digits", "epochs": "2", "ranks": "2", "model.depth": "18"}.items() <= (
        chosen.items()
    )
    assert not {"name", "runs_dir", "data.dir"} & chosen.keys()
    points = [point for batch in batches for point in batch[2]]
    for event, name in (("train", "loss"), ("train", "images_per_second"), ("evaluation", "top1")):
        assert [(p[3], p[1]) for p in points if p[0] == f"{event}/{name}"] == [
            (line["step"], line[name]) for line in metrics(run, event) if name in line
        ]
