"""Draw the architecture of a stack as SVG: `python -m infra.offline.diagram STACK`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.offline.diagram.layout import draw
from infra.offline.diagram.view import view
from infra.offline.render import show
from infra.resources import Resource

PICTURE = Path("docs/images/platform.svg")


def main(arguments: Sequence[str]) -> int:
    """Write the picture and print where."""
    parser = argparse.ArgumentParser(prog="python -m infra.offline.diagram", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=PICTURE, help="SVG file to write, by default %(default)s"
    )
    return show(parser, arguments, _write)


def _write(resources: Sequence[Resource], options: argparse.Namespace) -> None:
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(draw(view(resources)), encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
