"""A rank that kills itself at a step, as TRAINER_KILL_RANK asks, to see what happens then."""

import os
import re
import signal
from collections.abc import Mapping
from typing import Final

from common.errors import ConfigError

KILL: Final = "TRAINER_KILL_RANK"
"""Environment variable: RANK:STEP."""


class KilledRank:
    """Kills this process with SIGKILL once it has done some steps, if the variable names its rank.

    Only an attempt that begins at step 0 does so: the one that continues from a checkpoint has the
    same variables, and is to end.

    Args:
        env: Environment variables.
        rank: Number of this rank.

    Raises:
        ConfigError: The variable is not RANK:STEP.
    """

    def __init__(self, env: Mapping[str, str], rank: int) -> None:
        value = env.get(KILL, "")
        if value and not re.fullmatch(r"[0-9]{1,6}:[1-9][0-9]{0,8}", value):
            raise ConfigError([f"{KILL}: {value!r} must be RANK:STEP, such as 1:50"])
        named, _, step = value.partition(":")
        self._step = int(step) if value and int(named) == rank else None
        self._begun: int | None = None

    def at(self, step: int) -> None:
        """End this process if it is due; call it before each call of the loop.

        Args:
            step: Steps done.
        """
        if self._begun is None:
            self._begun = step
        if self._step is not None and self._begun == 0 and step >= self._step:
            print(f"{KILL}: this rank kills itself after step {step:,}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
