"""The stacks of the tests, each rendered once in a run of the tests.

Their settings are in `tests/infra/stacks/` and not in the files of the repository, which a team
changes.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.render.render import run
from infra.resources import of_kind
from infra.stack_config import assign, configuration, with_subscription
from infra.validation import load
from tests import ROOT


def file_of(stack: str) -> Path:
    """The file with the settings of a stack of the tests."""
    return ROOT / "tests" / "infra" / "stacks" / f"{stack}.yaml"


def rendered(stack, **overrides):
    """The resources of a stack; a double underscore in a key stands for a dot."""
    return tuple(ran(stack, **overrides).resources)


def ran(stack, **overrides):
    """As `rendered`, with the outputs of the stack and the hooks that it would have called."""
    return _run(stack, json.dumps(_dotted(overrides), sort_keys=True))


def key(kind, name):
    """The key of a resource of Azure, by its kind and its name in the program."""
    return f"azure-native:{kind}::{name}"


def only(resources, kind, name=None):
    """The one resource of a kind, or of a kind and name."""
    [resource] = [one for one in of_kind(resources, kind) if name in {None, one.name}]
    return resource


def settings_of(stack, **overrides):
    """The settings of the same stack."""
    _, values = configuration(stack, file_of(stack))
    for key, value in _dotted(overrides).items():
        values = assign(values, key, value)
    return load(with_subscription(values) | {"stack": stack})


@cache
def _run(stack, overrides):
    return run(stack, json.loads(overrides), file_of(stack))


def _dotted(overrides):
    return {key.replace("__", "."): value for key, value in overrides.items()}


def nightly(names: Iterable[str], every: int = 6) -> list[Any]:
    """Return names as parameters of a test that renders a stack for each: the first and each n-th,
    and the others marked `long`, as the rules are held to all options in any case.
    """
    return [
        name if number % every == 0 else pytest.param(name, marks=pytest.mark.long)
        for number, name in enumerate(names)
    ]
