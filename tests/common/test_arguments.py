"""From a command line to a dataclass."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from common.arguments import parse
from common.errors import ConfigError


@dataclass(frozen=True)
class Wait:
    FORMER_KEYS: ClassVar = {"patience_minutes": "timeout_minutes"}

    timeout_minutes: float = 1.0


@dataclass(frozen=True)
class Options:
    wait: Wait = field(default_factory=Wait)


def test_a_former_option_is_an_error_that_gives_the_new_one():
    for args in (["--wait.patience-minutes", "3"], ["--wait.patience-minutes=3"]):
        with pytest.raises(ConfigError) as error:
            parse(Options(), "wait", args)
        assert error.value.problems == (
            "--wait.patience-minutes: is now called --wait.timeout-minutes",
        )
