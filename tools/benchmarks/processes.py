"""Measurements in separate processes: in a single one, or in a world of ranks.

A measurement is a function with plain arguments and a plain result, named MODULE:FUNCTION. The
command that starts the process neither imports TensorFlow nor takes part in the measurement.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from common.errors import UserError
from tools.benchmarks.measure import to_json
from trainer.config import ExchangeConfig
from trainer.distributed.communicator import Communicator
from trainer.distributed.horovod import connect
from trainer.distributed.launcher import launch
from trainer.presets import PRESETS

_RESULT: Final = "TRAINER_BENCHMARK_RESULT"
"""Environment variable with the path of the file for the result."""


def in_process(
    function: str, variables: Mapping[str, str] | None = None, **arguments: Any
) -> dict[str, Any]:
    """Call a function in a new process.

    Args:
        function: MODULE:FUNCTION.
        variables: Environment variables, in addition to those of this process.
        arguments: Arguments of the function.

    Raises:
        UserError: The process failed.
    """
    with _result_file() as file:
        done = subprocess.run(
            [sys.executable, "-m", "tools.benchmarks.processes", function, to_json(arguments)],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **(variables or {})},
            check=False,
        )
        return _read(file, done.returncode)


def in_world(function: str, ranks: int, **arguments: Any) -> dict[str, Any]:
    """Call a function on every rank of a world, and return the result of rank 0.

    Raises:
        UserError: A rank failed.
    """
    with _result_file() as file:
        status = launch([function, to_json(arguments)], ranks, "tools.benchmarks.processes")
        return _read(file, status)


def join_world() -> Communicator:
    """Join the world of ranks that this process belongs to, and set up its device."""
    from trainer.diagnostics.device import set_up_device

    world = connect(ExchangeConfig())
    set_up_device(PRESETS["synthetic"], world)
    return world


def hand_back(result: Mapping[str, Any]) -> None:
    """Pass the result to the process that started this one; in a world only rank 0 does so."""
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        Path(os.environ[_RESULT]).write_text(to_json(result))


@contextmanager
def _result_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        os.environ[_RESULT] = str(file)
        try:
            yield file
        finally:
            del os.environ[_RESULT]


def _read(file: Path, status: int) -> dict[str, Any]:
    if status:
        raise UserError(f"the measurement failed with exit status {status}; see its output above")
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def main(argv: Sequence[str]) -> int:
    """Call the given function and pass its result back."""
    function, arguments = argv
    module, _, name = function.partition(":")
    try:
        hand_back(getattr(importlib.import_module(module), name)(**json.loads(arguments)))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
