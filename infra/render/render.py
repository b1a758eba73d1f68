"""Render a stack without Azure as JSON: `python -m infra.render.render STACK`.

It runs `infra/__main__.py` as the engine would, with the stack's configuration, but answers each
registration itself as Azure would. The output is a JSON list; see `infra.resources`. A stack that
is not pinned to a subscription yet is rendered for a placeholder, so its globally unique names are
not those of a deployment.
"""

import argparse
import gc
import json
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi.runtime import settings as engine
from pulumi.runtime.stack import Stack

from infra.errors import PlatformError
from infra.render.mocks import Monitor
from infra.resources import Resource, to_json
from infra.stack_config import ROOT, assign, configuration, encode, with_subscription

PROGRAM = ROOT / "infra" / "__main__.py"


@dataclass(frozen=True)
class Rendered:
    """Result of one run of the program."""

    resources: list[Resource]
    platform: Mapping[str, Any]
    """Stack output `platform`."""
    data_account: str
    """Stack output `data_account`."""
    hooks: Mapping[str, pulumi.ResourceHook]
    """Resource hooks by name."""
    providers: Mapping[str, Mapping[str, Any]]
    """Inputs of the providers by name."""
    roles: Sequence[Mapping[str, str]]
    """Stack output `roles`: assignments for the owner of the subscription."""


def render(stack: str, overrides: Mapping[str, object]) -> list[Resource]:
    """Return every resource that a stack declares.

    Args:
        stack: Name of the stack; `Pulumi.<stack>.yaml` configures it.
        overrides: Settings by dotted keys, which replace those of the file.

    Raises:
        pulumi.RunError: the configuration is not valid.
        ValueError: there is no such stack.
    """
    return run(stack, overrides).resources


def run(stack: str, overrides: Mapping[str, object], file: Path | None = None) -> Rendered:
    """Render a stack as `render` does, and return the outputs and hooks too.

    Args:
        stack: Name of the stack.
        overrides: Settings by dotted keys, which replace those of the file.
        file: File of the settings; None is the stack's own.
    """
    project, values = configuration(stack, file)
    for key, value in overrides.items():
        values = assign(values, key, value)
    values = with_subscription(values)
    pulumi.runtime.set_all_config({f"{project}:{key}": encode(v) for key, v in values.items()})
    monitor = Monitor()
    # Each run has its own stack, which `set_mocks` creates if there is none.
    engine.ROOT.set(None)
    pulumi.runtime.set_mocks(monitor.mocks, project, stack, preview=False, monitor=monitor)
    # The SDK calls an engine's hooks over the network; here there is only the monitor.
    engine.SETTINGS.callbacks = monitor
    with _no_collection(), _no_urns_of_aliases():
        exported = _program()
    return Rendered(
        monitor.recorded,
        exported["platform"],
        exported["data_account"],
        monitor.hooks,
        monitor.providers,
        exported.get("roles", ()),
    )


def _program() -> dict[str, Any]:
    """Run the program, and wait until all resources are registered."""
    exported: dict[str, Any] = {}

    def declare() -> pulumi.Output[None]:
        runpy.run_path(str(PROGRAM), run_name="__main__")
        root = engine.get_root_resource()
        assert isinstance(root, Stack)
        return pulumi.Output.all(**root.outputs).apply(exported.update)

    pulumi.runtime.test(declare)()  # type: ignore[no-untyped-call]
    return exported


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection, which takes two thirds of the time given the SDK's classes."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _no_urns_of_aliases() -> Iterator[None]:
    """Let the SDK compute no URNs of aliases, of which Azure's provider gives a resource one for
    each of its versions: it takes half of the time, and only an engine without alias
    specifications reads them.
    """
    with patch.object(pulumi.resource, "collapse_alias_to_urn", lambda *_: ""):
        yield


def show(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    use: Callable[[Sequence[Resource], argparse.Namespace], None],
) -> int:
    """Render the stack that the arguments name and pass its resources to a function.

    Returns:
        The exit status: 2 if the configuration is wrong, with the reason on standard error.
    """
    parser.add_argument("stack", help="name of the stack, configured in Pulumi.STACK.yaml")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="changes",
        help="override a setting of the file, for example network.training_nodes=50; repeatable",
    )
    options = parser.parse_args(arguments)
    try:
        use(render(options.stack, overrides_of(options.changes)), options)
        if "id" not in configuration(options.stack)[1].get("subscription", {}):
            print(
                f"note: subscription.id is not set in Pulumi.{options.stack}.yaml; ids and globally"
                " unique names are those of a placeholder",
                file=sys.stderr,
            )
    except (PlatformError, pulumi.RunError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def overrides_of(texts: Sequence[str]) -> dict[str, object]:
    """Parse settings by key; a value that is not JSON is text, as in a stack's file."""
    overrides: dict[str, object] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise ValueError(
                f"--set {text}: write KEY=VALUE, for example network.training_nodes=50"
            )
        try:
            overrides[key] = json.loads(value)
        except ValueError:
            overrides[key] = value
    return overrides


def main(arguments: Sequence[str]) -> int:
    """Write the resources of a stack; return 2 if its configuration is wrong."""
    parser = argparse.ArgumentParser(prog="python -m infra.render.render", description=__doc__)
    parser.add_argument(
        "--output", type=Path, help="JSON file to write, by default build/STACK.resources.json"
    )
    begun = time.perf_counter()

    def write(resources: Sequence[Resource], options: argparse.Namespace) -> None:
        output = options.output or ROOT / "build" / f"{options.stack}.resources.json"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(to_json(resources), encoding="utf-8")
        seconds = time.perf_counter() - begun
        print(f"{output}: {len(resources)} resources in {seconds:.1f} s")

    return show(parser, arguments, write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
