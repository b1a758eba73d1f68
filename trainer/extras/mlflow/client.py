"""MLflow's REST protocol, as far as a run needs it, and the token of a job of Azure ML.

MLflow's own client and Azure's plug-in would bring 30 packages, whose pins have held back security
updates. The protocol: https://mlflow.org/docs/latest/rest-api.html. Paths on Azure, and the way to
renew a token, are those of azureml-mlflow 1.62.
"""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from trainer.errors import EXIT_STATUS_TAG

LARGEST_BATCH: Final = 1000
"""Points that MLflow accepts in one request."""

_MOST_PAIRS: Final = 100
"""Parameters, or tags, that MLflow accepts in one request."""

_TIMEOUT: Final = (10, 30)
"""Seconds to wait for a connection, and for an answer."""

_RETRY: Final = Retry(
    total=4, backoff_factor=0.5, status_forcelist=(408, 429, 500, 502, 503, 504),
    allowed_methods=None, raise_on_status=False,
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One value of one metric."""

    key: str
    value: float
    milliseconds: int
    """Time of the value, in milliseconds since 1970."""
    step: int


class MlflowClient:
    """The MLflow run that the environment names, or a new one."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        """Args:
            name: Name of a new run.
            environment: Environment variables; MLFLOW_TRACKING_URI must be among them.

        Raises:
            ValueError: MLFLOW_TRACKING_URI is not the address of a server.
            requests.RequestException: The server cannot be reached, or refuses.
        """
        self._service = _Service(environment)
        run_id = environment.get("MLFLOW_RUN_ID")
        self._own = run_id is None
        self._run = run_id or self._create(name, environment)

    def describe(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """Set parameters and tags of the run."""
        # Separately, because MLflow refuses new parameters of a run resumed with other options.
        for kind, given in (("tags", tags), ("params", parameters)):
            pairs = [{"key": key, "value": str(value)} for key, value in given.items()]
            for first in range(0, len(pairs), _MOST_PAIRS):
                self._log_batch({kind: pairs[first : first + _MOST_PAIRS]})

    def send(self, points: Sequence[Point]) -> None:
        """Add at most `LARGEST_BATCH` points."""
        metrics = [
            {
                "key": point.key,
                "value": point.value,
                "timestamp": point.milliseconds,
                "step": point.step,
            }
            for point in points
        ]
        self._log_batch({"metrics": metrics})

    def end(self, exit_status: int, *, failed: bool) -> None:
        """Tell how the attempt ended, and mark the run as ended unless its owner does."""
        tag = {"run_id": self._run, "key": EXIT_STATUS_TAG, "value": str(exit_status)}
        self._service.post("runs/set-tag", tag)
        if self._own:
            status = "FAILED" if failed else "FINISHED"
            ended = {"run_id": self._run, "status": status, "end_time": _milliseconds()}
            self._service.post("runs/update", ended)

    def _log_batch(self, values: Mapping[str, Sequence[Mapping[str, object]]]) -> None:
        self._service.post("runs/log-batch", {"run_id": self._run, **values})

    def _create(self, name: str, environment: Mapping[str, str]) -> str:
        new = {"run_name": name, "start_time": _milliseconds()}
        experiment = self._experiment(environment)
        made = self._service.post("runs/create", {"experiment_id": experiment, **new})
        return str(made["run"]["info"]["run_id"])

    def _experiment(self, environment: Mapping[str, str]) -> str:
        name = environment.get("MLFLOW_EXPERIMENT_NAME")
        if name is None:
            return environment.get("MLFLOW_EXPERIMENT_ID", "0")
        answer = self._service.get("experiments/get-by-name", {"experiment_name": name})
        if answer is not None:
            return str(answer["experiment"]["experiment_id"])
        return str(self._service.post("experiments/create", {"name": name})["experiment_id"])


class _Service:
    """A tracking server: requests with a token and repetition of what failed for a moment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        uri = environment["MLFLOW_TRACKING_URI"]
        parts = urlsplit(uri)
        if parts.scheme not in {"http", "https", "azureml"} or not parts.netloc:
            raise ValueError(
                f"MLFLOW_TRACKING_URI={uri} must begin with https://, http:// or azureml://"
            )
        scheme = "https" if parts.scheme == "azureml" else parts.scheme
        path = parts.path.rstrip("/")
        if parts.scheme == "azureml":
            path = path.replace("/mlflow/v1.0/", "/mlflow/v2.0/", 1)
        self._base = f"{scheme}://{parts.netloc}{path}/api/2.0/mlflow"
        token = environment.get("MLFLOW_TRACKING_TOKEN")
        user, password = (
            environment.get(f"MLFLOW_TRACKING_{name}") for name in ("USERNAME", "PASSWORD")
        )
        self._session = requests.Session()
        self._session.mount(f"{scheme}://", HTTPAdapter(max_retries=_RETRY))
        if token:
            address = _token_address(f"{scheme}://{parts.netloc}", path, environment)
            self._session.auth = _Token(token, address if parts.scheme == "azureml" else None)
        elif parts.scheme == "azureml":
            raise ValueError("MLFLOW_TRACKING_TOKEN is not set; jobs of Azure ML have it")
        elif user and password:
            self._session.auth = (user, password)

    def post(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer.

        Raises:
            requests.RequestException: The server cannot be reached, or refuses.
        """
        answer = self._session.post(f"{self._base}/{method}", json=body, timeout=_TIMEOUT)
        return _accepted(answer)

    def get(self, method: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        """Return the answer, or None if the thing asked for does not exist.

        Raises:
            requests.RequestException: The server cannot be reached, or refuses.
        """
        answer = self._session.get(f"{self._base}/{method}", params=query, timeout=_TIMEOUT)
        return None if answer.status_code == requests.codes.not_found else _accepted(answer)


class _Token(requests.auth.AuthBase):
    """The token of a job; a new one is asked for in the last quarter of its life."""

    def __init__(self, token: str, address: str | None) -> None:
        """Args:
        token: Token of the environment.
        address: Where a new one can be had; None keeps the first.
        """
        self._token, self._address = token, address
        self._renewal = _renewal(token)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Sign a request."""
        if self._address is not None and time.time() > self._renewal:
            self._renew(self._address)
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def _renew(self, address: str) -> None:
        """Replace the token; if that fails, the old one serves until a server refuses it."""
        sign = _Token(self._token, None)
        try:
            answer = requests.get(address, auth=sign, timeout=_TIMEOUT)
            self._token = str(_accepted(answer)["token"])
        except (requests.RequestException, KeyError):
            return
        self._renewal = _renewal(self._token)


def _token_address(host: str, path: str, environment: Mapping[str, str]) -> str | None:
    """Return the address of new tokens of a job, or None without the names that it consists of."""
    _, separator, workspace = path.partition("/subscriptions/")
    run = environment.get("MLFLOW_RUN_ID")
    for part, variable in (("experimentids", "ID"), ("experiments", "NAME")):
        experiment = environment.get(f"MLFLOW_EXPERIMENT_{variable}")
        if separator and run and experiment:
            scope = f"{host}/history/v1.0/subscriptions/{workspace}"
            return f"{scope}/{part}/{experiment}/runs/{run}/token"
    return None


def _renewal(token: str) -> float:
    """Return when three quarters of a JSON web token's life are over, in seconds since 1970; for
    any other token, never.
    """
    try:
        text = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        end, begin = float(claims["exp"]), float(claims.get("iat", time.time()))
    except (IndexError, KeyError, TypeError, ValueError):
        return float("inf")
    return end - (end - begin) / 4


def _accepted(answer: requests.Response) -> dict[str, Any]:
    """Return the body of an answer.

    Raises:
        requests.HTTPError: The server refuses; the text has its own words.
    """
    if not answer.ok:
        raise requests.HTTPError(
            f"{answer.request.method} {answer.url.partition('/api/')[2]}: status"
            f" {answer.status_code}, {answer.text[:300]}"
        )
    body: dict[str, Any] = answer.json() if answer.content else {}
    return body


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
