"""A rank that waits before its first step until a debugger attaches, as TRAINER_DEBUG asks."""

import importlib
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from common.errors import ConfigError
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.distributed.run_requests import DEBUG, DEBUG_PORT
from trainer.distributed.signals import StopRequest

_PATIENCE_SECONDS: Final = 7 * 86_400
"""Seconds that the ranks wait for one that a debugger has stopped."""
_LOOPBACK: Final = "127.0.0.1"
"""The only address to listen on: anyone who reaches a debugger can run any code."""


def patient(config: TrainConfig, env: Mapping[str, str]) -> TrainConfig:
    """Return the configuration of a run in which a debugger may stop a rank: the others wait for
    it, and no watchdog ends it.
    """
    if not env.get(DEBUG):
        return config
    return replace(
        config,
        watchdog=replace(config.watchdog, step_seconds=0),
        exchange=replace(config.exchange, timeout_seconds=_PATIENCE_SECONDS),
    )


def wait_for_debugger(
    world: Communicator, env: Mapping[str, str], alive: Callable[[], None], stop: StopRequest
) -> None:
    """Wait on all ranks until a debugger has attached to the rank that TRAINER_DEBUG names, and
    stop that rank in the caller, as at a breakpoint.

    Return at once if the variable is not set, and as soon as the run is asked to stop.

    Args:
        world: World of ranks.
        env: Environment variables.
        alive: Called while waiting.
        stop: Request to stop this rank.

    Raises:
        ConfigError: The variable is invalid, debugpy is not installed, or the port is taken.
    """
    if not env.get(DEBUG):
        return
    rank, port = _read(env[DEBUG], world.size)
    debugger = _listen(rank, port) if world.rank == rank else None
    # Asking each other keeps any time-out of the exchange from passing.
    while not any(world.gather(stop.signal is not None or _is_attached(debugger))):
        alive()
        time.sleep(0.5)
    if debugger is not None and _is_attached(debugger):
        debugger.breakpoint()


def _read(text: str, size: int) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,4})(?::(\d{1,5}))?", text)
    if match is None or int(match[1]) >= size:
        raise ConfigError(
            [f"{DEBUG}: {text!r} must be RANK or RANK:PORT, with a rank below {size}"]
        )
    return int(match[1]), int(match[2] or DEBUG_PORT)


def _listen(rank: int, port: int) -> Any:
    """Return debugpy, which listens for debuggers."""
    try:
        # Imported only here: it changes how Python starts threads.
        debugpy: Any = importlib.import_module("debugpy")
    except ImportError as error:
        raise ConfigError(
            [f"{DEBUG}: debugpy is not installed; run `make setup`, or use a current job image"]
        ) from error
    try:
        debugpy.listen((_LOOPBACK, port))
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            [f"{DEBUG}: cannot listen on {_LOOPBACK}, port {port} ({error}); pass RANK:PORT"]
        ) from error
    print(
        f"rank {rank}: waits for a debugger on {_LOOPBACK}, port {port} of this node (debugpy)",
        file=sys.stderr,
        flush=True,
    )
    return debugpy


def _is_attached(debugger: Any) -> bool:
    return debugger is not None and bool(debugger.is_client_connected())
