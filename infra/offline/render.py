"""Run the program without Azure and write down everything that it declares.

    python -m infra.offline.render STACK [--set key=value ...] [--output FILE]

runs `infra/__main__.py` as the engine would, with the stack's configuration, but answers each
registration itself with what Azure would give. What comes out is a JSON list; see
`infra.resources`.
"""

import argparse
import gc
import json
import runpy
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime import settings as engine
from pulumi.runtime.stack import Stack

from infra.errors import PlatformError
from infra.offline.mocks import Monitor
from infra.resources import Resource, to_json

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "infra" / "__main__.py"


@dataclass(frozen=True)
class Rendered:
    """One run of the program."""

    resources: list[Resource]
    platform: Mapping[str, Any]
    """What it exported."""
    hooks: Mapping[str, pulumi.ResourceHook]
    """What it would have the engine call, by name."""


def render(stack: str, overrides: Mapping[str, object]) -> list[Resource]:
    """Every resource that a stack declares.

    Args:
        stack: its name; `Pulumi.<stack>.yaml` configures it.
        overrides: configuration by dotted keys, in place of the file's.

    Raises:
        pulumi.RunError: the configuration is not one that a platform can be declared from.
        ValueError: there is no such stack.
    """
    return run(stack, overrides).resources


def run(stack: str, overrides: Mapping[str, object]) -> Rendered:
    """As `render`, with all else that the run shows."""
    project, values = configuration(stack)
    for key, value in overrides.items():
        values = assign(values, key, value)
    pulumi.runtime.set_all_config({f"{project}:{key}": encode(v) for key, v in values.items()})
    monitor = Monitor()
    # Each run has a stack of its own, which `set_mocks` makes when there is none.
    engine.ROOT.set(None)
    pulumi.runtime.set_mocks(monitor.mocks, project, stack, preview=False, monitor=monitor)
    # The SDK speaks to an engine's hooks over the network; here the monitor is all there is.
    engine.SETTINGS.callbacks = monitor
    with _no_collection():
        exported = _program()
    return Rendered(monitor.recorded, exported["platform"], monitor.hooks)


def _program() -> dict[str, Any]:
    """Run the program, and wait until all that it declared is registered."""
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
    """Two thirds of the time would go into looking for garbage among the SDK's many classes."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def configuration(stack: str, file: Path | None = None) -> tuple[str, dict[str, Any]]:
    """The project's name, and a stack's configuration without the project in front of its keys.

    Args:
        stack: its name.
        file: that holds the configuration, if not the stack's own.

    Raises:
        ValueError: there is no such stack.
    """
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["name"]
    file = file or ROOT / f"Pulumi.{stack}.yaml"
    if not file.exists():
        known = sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml"))
        raise ValueError(f"there is no stack {stack!r}; there are {', '.join(known)}")
    config = yaml.safe_load(file.read_text(encoding="utf-8")).get("config", {})
    own = {
        key.removeprefix(f"{project}:"): value
        for key, value in config.items()
        if key.startswith(f"{project}:")
    }
    return project, own


def assign(values: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """The values with another one at a dotted key."""
    changed: dict[str, Any] = deepcopy(dict(values))
    *groups, last = key.split(".")
    inner = changed
    for group in groups:
        if not isinstance(inner.get(group), dict):
            inner[group] = {}
        inner = inner[group]
    inner[last] = value
    return changed


def encode(value: object) -> str:
    """A value of a stack's file as the engine hands it to a program."""
    return value if isinstance(value, str) else json.dumps(value)


def main(arguments: list[str]) -> int:
    """Render one stack; 2 when its configuration is wrong."""
    parser = argparse.ArgumentParser(prog="python -m infra.offline.render", description=__doc__)
    parser.add_argument("stack")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    output = options.output or ROOT / "build" / f"{options.stack}.resources.json"
    begun = time.perf_counter()
    try:
        resources = render(options.stack, _changes(options.changes))
    except (PlatformError, pulumi.RunError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(to_json(resources), encoding="utf-8")
    seconds = time.perf_counter() - begun
    print(f"{output}: {len(resources)} resources in {seconds:.1f} s")
    return 0


def _changes(texts: list[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for text in texts:
        key, given, value = text.partition("=")
        if not given:
            raise ValueError(f"--set {text}: write KEY=VALUE, such as network.jump_subnet=true")
        found[key] = yaml.safe_load(value)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
