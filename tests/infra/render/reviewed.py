"""Record the inputs of stacks for the rules: `.venv/bin/python -m tests.infra.render.reviewed`.

Renders every option of the tests and writes infra/rules/reviewed.json, which the rules
`as-declared` and `only-reviewed` hold a stack to.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.resources import Resource
from infra.rules.closed_world import RECORD, paths
from infra.rules.rule import canonical, values_at
from tests.infra.support.stacks import rendered
from tests.infra.support.variants import RECORDED


def record(resources: Sequence[Resource]) -> Mapping[str, Mapping[str, Any]]:
    """Return the inputs of each kind in these resources, as `reviewed` reads them."""
    of_kind: dict[str, list[Resource]] = {}
    for resource in resources:
        if resource.type.startswith("azure-native:"):
            of_kind.setdefault(resource.kind, []).append(resource)
    return {kind: dict(sorted(_inputs(of_kind[kind]), key=_order)) for kind in sorted(of_kind)}


def _order(item: tuple[str, Any]) -> tuple[bool, str]:
    # A preview does not know all values, and a rule ends at the first unknown one.
    path, value = item
    return value is None, path


def _inputs(resources: Sequence[Resource]) -> Iterator[tuple[str, Any]]:
    for path in {path for resource in resources for path in paths(resource.inputs)}:
        keys = path.removesuffix("[]").split(".")
        values = [value for one in resources for _, value in values_at(one.inputs, keys)]
        given = [value for value in values if value not in (None, [], "")]
        constant = len({canonical(value) for value in given}) == 1 and not path.endswith("[]")
        yield path + "?" * (len(given) < len(values)), given[0] if constant else None


def text() -> str:
    """Return the file, with an input on each line."""
    stacks = [rendered(stack, **overrides) for stack, overrides in RECORDED.values()]
    return json.dumps(record([one for stack in stacks for one in stack]), indent=1) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the file, and return the exit status."""
    argparse.ArgumentParser(
        prog="python -m tests.infra.render.reviewed", description=__doc__
    ).parse_args(arguments)
    RECORD.write_text(text(), encoding="utf-8")
    print(f"wrote {RECORD}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
