"""MLflow gets rank 0's metrics, and training neither waits for it nor fails with it."""

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests

from common.errors import UserError
from tests.trainer.support.command import TINY, metrics
from tests.trainer.support.forked import fork_trainer
from trainer.errors import NonFiniteError
from trainer.extras.mlflow.client import LARGEST_BATCH, MlflowClient, _Token, _token_address
from trainer.extras.mlflow.logger import CAPACITY, MlflowLogger, mlflow_logger
from trainer.loggers.observer import Observed

TIMEOUT = 30


class Server(ThreadingHTTPServer):
    """An MLflow server that remembers its requests, and refuses those that a test chooses."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.signed, self.busy, self.refused = [], [], 0, ()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, method, body):
        self.asked.append([method, body])
        if self.busy:
            self.busy -= 1
            return 503, {}
        if method in self.refused or body.get("experiment_name") == "not":
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "not there"}
        return 200, {
            "experiments/get-by-name": {"experiment": {"experiment_id": "17"}},
            "experiments/create": {"experiment_id": "18"},
            "runs/create": {"run": {"info": {"run_id": "new"}}},
            "token": {"token": "renewed"},
        }.get(method, {})


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urlsplit(self.path)
        given = json.loads(body) if body else dict(parse_qsl(address.query))
        self.server.signed.append(self.headers["Authorization"])
        method = address.path.rpartition("/2.0/mlflow/")[2].rpartition("/job-r1/")[2]
        status, answer = self.server.answer(method, given)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_GET(self):
        self.do_POST()

    def log_message(self, *_):
        pass


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
def server(monkeypatch):
    """A server that the environment names."""
    with Server() as there:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", there.url)
        for name in ("RUN_ID", "EXPERIMENT_ID", "EXPERIMENT_NAME", "TRACKING_TOKEN"):
            monkeypatch.delenv(f"MLFLOW_{name}", raising=False)
        yield there
        there.shutdown()


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


@pytest.mark.parametrize("lacks", ["server", "rank 0"])
def test_elsewhere_nothing_is_sent_or_started(lacks, server, monkeypatch):
    if lacks == "server":
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
    before = threading.active_count()
    with logger_of("first", rank=int(lacks == "rank 0")) as sent:
        sent.begin({}, {})
        sent.add("train", 1, {"loss": 1.0})
        assert threading.active_count() == before
    assert server.asked == []


def test_the_run_that_the_environment_names_is_added_to_and_not_ended(server, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "job-r1")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    with logger_of("first") as sent:
        sent.begin({"epochs": 3}, {"trainer.run": "first"})
        sent.add("train", 5, {"loss": 2.5})
    named = [
        {"key": "trainer.run", "value": "first"},
        {"key": "trainer.exit_status", "value": "running"},
    ]
    tags, parameters, points, end = server.asked
    assert tags == ["runs/log-batch", {"run_id": "job-r1", "tags": named}]
    chosen = [{"key": "epochs", "value": "3"}]
    assert parameters == ["runs/log-batch", {"run_id": "job-r1", "params": chosen}]
    status = {"run_id": "job-r1", "key": "trainer.exit_status", "value": "0"}
    assert end == ["runs/set-tag", status]
    (point,) = points[1]["metrics"]
    assert point.pop("timestamp") > 1.7e12
    assert point == {"key": "train/loss", "value": 2.5, "step": 5}
    assert set(server.signed) == {"Bearer secret"}


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, [["runs/create", "0"]]),
        ({"MLFLOW_EXPERIMENT_ID": "5"}, [["runs/create", "5"]]),
        ({"MLFLOW_EXPERIMENT_NAME": "there"},
         [["experiments/get-by-name", None], ["runs/create", "17"]]),
        ({"MLFLOW_EXPERIMENT_NAME": "not"},
         [["experiments/get-by-name", None], ["experiments/create", None], ["runs/create", "18"]]),
    ],
)  # fmt: skip
def test_without_a_named_run_one_is_made_and_ended(variables, asked, server, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with logger_of("first") as sent:
        sent.begin({}, {})
    first = server.asked[: len(asked)]
    assert [[method, body.get("experiment_id")] for method, body in first] == asked
    assert first[-1][1]["run_name"] == "first"
    method, ended = server.asked[-1]
    assert (method, ended["run_id"], ended["status"]) == ("runs/update", "new", "FINISHED")


def test_a_server_that_is_busy_for_a_moment_gets_every_point(server, capsys):
    with logger_of("first") as sent:
        server.busy = 2
        sent.begin({}, {})
        sent.add("train", 1, {"loss": 1.0})
    assert [body["metrics"][0]["step"] for _, body in server.asked if "metrics" in body] == [1]
    assert capsys.readouterr().err == ""


def test_a_refusal_names_the_request_and_the_servers_words(server, capsys):
    server.refused = ("runs/set-tag",)
    with logger_of("first") as sent:
        sent.begin({}, {})
    error = capsys.readouterr().err
    assert "POST" in error
    assert "runs/set-tag: status 404" in error
    assert "RESOURCE_DOES_NOT_EXIST" in error


@pytest.mark.parametrize("uri", ["file:/somewhere", "databricks", "sqlite:///x.db"])
def test_what_is_not_a_server_is_refused(uri):
    with pytest.raises(ValueError, match=f"MLFLOW_TRACKING_URI={uri} must begin with https"):
        MlflowClient("first", {"MLFLOW_TRACKING_URI": uri})


WORKSPACE = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
)


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({"MLFLOW_RUN_ID": "j", "MLFLOW_EXPERIMENT_ID": "5", "MLFLOW_EXPERIMENT_NAME": "e"},
         f"https://azure/history/v1.0{WORKSPACE}/experimentids/5/runs/j/token"),
        ({"MLFLOW_RUN_ID": "j", "MLFLOW_EXPERIMENT_NAME": "e"},
         f"https://azure/history/v1.0{WORKSPACE}/experiments/e/runs/j/token"),
        ({"MLFLOW_EXPERIMENT_NAME": "e"}, None),
    ],
)  # fmt: skip
def test_a_job_finds_where_its_token_is_renewed(variables, address):
    assert _token_address("https://azure", f"/mlflow/v2.0{WORKSPACE}", variables) == address


@pytest.mark.parametrize(
    ("age", "refused", "used"), [(70, False, "old"), (80, False, "renewed"), (80, True, "old")]
)
def test_a_token_is_renewed_in_the_last_quarter_of_its_life(age, refused, used, server):
    claims = {"iat": time.time() - age, "exp": time.time() + 100 - age}
    text = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    old = f"header.{text}.signature"
    server.refused = ("token",) if refused else ()
    sign = _Token(old, f"{server.url}/runs/job-r1/token")
    signed = sign(requests.Request("GET", server.url).prepare()).headers["Authorization"]
    assert signed == f"Bearer {old if used == 'old' else 'renewed'}"


@pytest.mark.long
def test_a_training_of_two_ranks_is_sent_once(server, workplace):
    env = {"MLFLOW_TRACKING_URI": server.url, "MLFLOW_RUN_ID": "job-r1"}
    args = ("train", *TINY, "--name", "first", "--max-steps", "20")
    done = fork_trainer(*args, cwd=workplace, env=[env, env])
    assert done.returncode == 0, done.stderr
    run = workplace / "runs" / "first"
    (_, tags), (_, parameters), *batches, end = server.asked
    status = {"run_id": "job-r1", "key": "trainer.exit_status", "value": "0"}
    assert end == ["runs/set-tag", status]
    named = {tag["key"]: tag["value"] for tag in tags["tags"]}
    assert {"trainer.run": "first", "trainer.attempt": "1"}.items() <= named.items()
    chosen = {one["key"]: one["value"] for one in parameters["params"]}
    assert {"preset": "digits", "epochs": "2", "ranks": "2", "model.depth": "18"}.items() <= (
        chosen.items()
    )
    assert not {"name", "runs_dir", "data.dir"} & chosen.keys()
    points = [point for _, body in batches for point in body["metrics"]]
    for event, name in (("train", "loss"), ("train", "images_per_second"), ("evaluation", "top1")):
        sent = [(p["step"], p["value"]) for p in points if p["key"] == f"{event}/{name}"]
        assert sent == [(line["step"], line[name]) for line in metrics(run, event) if name in line]
