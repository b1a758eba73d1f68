"""`python -m environments`: make images on this machine, and look at them."""

import argparse
import sys
from collections.abc import Sequence

from common.errors import UserError
from environments import base, build, stand_in
from environments.build import Order
from environments.builders import find_builder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m environments", description="The images that jobs run in."
    )
    commands = parser.add_subparsers(required=True)
    built = commands.add_parser("build", help="make an image")
    built.set_defaults(run=_build)
    built.add_argument("image", choices=["cpu", "gpu"])
    built.add_argument("--base", help="image to begin with; the Dockerfile's own if not given")
    built.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_pair,
        help="of the build, such as PIP_INDEX_URL=...; may be given several times",
    )
    built.add_argument(
        "--stand-in",
        action="store_true",
        help="compile for GPUs with CUDA of Debian's, where NVIDIA's image cannot be pulled",
    )
    built.add_argument("--fresh", action="store_true", help="take no step from earlier builds")
    named = commands.add_parser("builder", help="print what would make images here")
    named.set_defaults(run=_builder)
    removed = commands.add_parser("remove", help="remove the images that were made here")
    removed.set_defaults(run=_remove)
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text}: must be NAME=VALUE")
    return name, value


def _build(given: argparse.Namespace) -> int:
    builder = find_builder()
    order = Order(given.image, given.base, dict(given.argument), given.fresh)
    if given.stand_in:
        order = stand_in.order(builder, order, _tell)
    build.build(builder, order, _tell)
    return 0


def _builder(given: argparse.Namespace) -> int:  # noqa: ARG001
    _tell(find_builder().program)
    return 0


def _remove(given: argparse.Namespace) -> int:  # noqa: ARG001
    builder = find_builder()
    orders = (Order("gpu", tag=stand_in.TAG), Order("gpu"), Order("cpu"))
    for name in (*(order.name for order in orders), stand_in.COMPILER, base.LOCAL):
        if builder.engine.has(name):
            builder.remove(name)
            _tell(f"removed {name}")
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
