"""What the commands share that show a stack: which stack, and with which settings changed."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence

import pulumi

from infra.errors import PlatformError
from infra.offline.render import render
from infra.resources import Resource


def show(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    what: Callable[[Sequence[Resource], argparse.Namespace], None],
) -> int:
    """Render the stack that the arguments name and do something with its resources.

    Returns:
        The exit status: 2 when the configuration is wrong, with the reason on standard error.
    """
    parser.add_argument("stack", help="its settings are in Pulumi.STACK.yaml")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="changes",
        help="a setting in place of the file's, such as network.jump_subnet=true",
    )
    options = parser.parse_args(arguments)
    try:
        what(render(options.stack, _overrides(options.changes)), options)
    except (PlatformError, pulumi.RunError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _overrides(texts: Sequence[str]) -> dict[str, object]:
    """Settings by key; a value that is no JSON is a text, as in a stack's file."""
    found: dict[str, object] = {}
    for text in texts:
        key, given, value = text.partition("=")
        if not given:
            raise ValueError(f"--set {text}: write KEY=VALUE, such as network.jump_subnet=true")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found
