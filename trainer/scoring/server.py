"""`ml-trainer serve`: the exported model in Azure Machine Learning's inference server.

The server has an environment of its own, without Horovod, and runs serving/score.py, like a
deployment on Azure.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Final

from common.errors import UserError
from trainer.diagnostics.environment import cores
from trainer.export.layout import exported_model
from trainer.scoring.options import ServeOptions

_ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPT: Final = _ROOT / "serving" / "score.py"
PYTHON: Final = _ROOT / ".tools" / "serving" / "bin" / "python"
"""Python of the server's environment, which `make serve` installs."""
THREADS: Final = 4
"""Threads of a worker that read requests or wait for answers: a health probe does not wait behind a
request, nor a request behind a connection that a browser has opened in advance."""
SHARING_THREADS: Final = 16
"""The same if requests share calls of the model: as many can meet in a call."""
_STUCK_SECONDS: Final = "300"
"""Time after which a worker that loads its model, or that a client keeps waiting before its
request, is replaced; the default of the server."""


def serve(options: ServeOptions) -> None:
    """Replace this process by the server.

    Raises:
        CheckpointError: There is no exported model.
        UserError: The server is not installed, or the port is in use.
    """
    saved_model = exported_model(options.run, options.model).resolve()
    if not PYTHON.is_file():
        raise UserError("the inference server is not installed; run `make serve` once")
    _check_port(options.host, options.port)
    print(
        f"{saved_model.parent}: http://{options.host}:{options.port}/score answers when its workers"
        " are ready, in about half a minute; Ctrl-C ends it"
    )
    sys.stdout.flush()
    environment = {**os.environ, **variables(options, saved_model)}
    os.execve(PYTHON, command(options), environment)  # noqa: S606 - signals reach the server


def command(options: ServeOptions) -> list[str]:
    """Return the command line of the server: its own start-up would listen on all addresses."""
    threads = SHARING_THREADS if options.wait_ms else THREADS
    return [
        *(str(PYTHON), "-m", "gunicorn", "azureml_inference_server_http.server.entry:app"),
        *("--bind", f"{options.host}:{options.port}"),
        *("--workers", str(options.workers or cores()), "--threads", str(threads)),
        *("--timeout", _STUCK_SECONDS, "--access-logfile", "-"),
        *("--pythonpath", f"{SCRIPT.parent},{_ROOT}"),
        *("--log-config-json", str(SCRIPT.with_name("logging.json"))),
    ]


def variables(options: ServeOptions, saved_model: Path) -> dict[str, str]:
    """Return the environment variables that Azure Machine Learning would set, and our own."""
    return {
        "AML_APP_ROOT": str(SCRIPT.parent),
        "AZUREML_ENTRY_SCRIPT": str(SCRIPT),
        "AZUREML_MODEL_DIR": str(saved_model),
        "SCORE_TIMEOUT": str(options.timeout),
        "SCORE_WAIT_MS": str(options.wait_ms),
        "SCORE_DEADLINE": str(options.deadline),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"{host}:{port}: cannot be listened on ({error.strerror}); choose another --host"
                " or --port"
            ) from error
