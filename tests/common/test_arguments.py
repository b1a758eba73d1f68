"""A command line is parsed into a frozen dataclass."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from common.arguments import parse
from common.errors import ConfigError
from common.fields import Bounds, Formerly


@dataclass(frozen=True)
class Options:
    """Options of a command."""

    retry_timeout: Annotated[float, Bounds(above=0), Formerly("patience")] = 1.0
    """How long to retry."""


def test_a_renamed_option_is_refused_with_its_name_of_today():
    assert parse(Options(), "wait", ["--retry-timeout", "2"]) == Options(2.0)
    with pytest.raises(ConfigError) as caught:
        parse(Options(), "wait", ["--patience", "2"])
    assert caught.value.problems == ("--patience: is now called --retry-timeout",)
