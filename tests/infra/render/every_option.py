"""Render a stack with every option, one after the other, to a folder:
`.venv/bin/python -m tests.infra.render.every_option FOLDER`.

Each file is what `make render` writes, for tools that compare declared resources with Azure's
published types. With `--only TEXT`, the options whose names contain it.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.render.render import run
from infra.resources import to_json
from tests.infra.support.stacks import file_of
from tests.infra.support.variants import OPTIONS


def main(arguments: Sequence[str]) -> int:
    """Write a file for each option of each stack of the tests."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.infra.render.every_option", description=__doc__
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="options whose names contain this")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = {name: values for name, values in OPTIONS.items() if options.only in name}
    for stack, name in (*(("dev", name) for name in wanted), ("prod", "as it is")):
        resources = run(stack, OPTIONS[name], file_of(stack)).resources
        file = options.folder / f"{stack}-{re.sub(r'[^a-z0-9]+', '-', name.lower())}.json"
        file.write_text(to_json(resources), encoding="utf-8")
        print(f"{file}: {len(resources)} resources", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
