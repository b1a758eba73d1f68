"""`python -m environments`: build images on this machine."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from environments import base, build, inventory, wheel_sizes
from environments.build import Order
from environments.builders import find_builder
from environments.stand_in import cuda_compiler


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m environments", description="Build the images that jobs run in."
    )
    commands = parser.add_subparsers(required=True)
    built = commands.add_parser("build", help="build an image")
    built.set_defaults(run=_build)
    built.add_argument("image", choices=["cpu", "gpu", "serving"])
    built.add_argument("--base", help="base image (default: that of the Dockerfile)")
    built.add_argument(
        "--argument",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_pair,
        help="build argument, such as PIP_INDEX_URL=...; may be given several times",
    )
    built.add_argument(
        "--stand-in",
        action="store_true",
        help="compile for GPUs with Debian's CUDA, if NVIDIA's image cannot be pulled",
    )
    built.add_argument("--fresh", action="store_true", help="do not use cached steps")
    read = commands.add_parser("inventory", help="write the bill of materials of any image")
    read.set_defaults(run=_inventory)
    read.add_argument("root", type=Path, help="root folder of the image")
    read.add_argument("--to", type=Path, required=True, help="folder for the files")
    read.add_argument("--name", help="name of the image (default: name of the folder in --to)")
    sizes = commands.add_parser("sizes", help="write the sizes of locked wheels")
    sizes.set_defaults(run=_sizes)
    sizes.add_argument(
        "folders", type=Path, nargs="+", help="folders site-packages, installed from the locks"
    )
    named = commands.add_parser("builder", help="print the container engine that builds images")
    named.set_defaults(run=_builder)
    removed = commands.add_parser("remove", help="remove the images that were built here")
    removed.set_defaults(run=_remove)
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text}: must be NAME=VALUE")
    return name, value


def _build(options: argparse.Namespace) -> int:
    builder = find_builder()
    order = Order(options.image, options.base, dict(options.argument), options.fresh)
    if options.stand_in:
        order = cuda_compiler.stand_in_order(builder, order, _tell)
    build.build(builder, order, _tell)
    return 0


def _inventory(options: argparse.Namespace) -> int:
    name = options.name or options.to.name
    inventory.write(build.SYFT, options.root, options.to, name)
    _tell(f"{options.to / inventory.SBOM}, {options.to / inventory.LICENCES}")
    return 0


def _sizes(options: argparse.Namespace) -> int:
    images = [wheel_sizes.measure(folder) for folder in options.folders]
    wheel_sizes.write({name: size for sizes in images for name, size in sizes.items()})
    _tell(f"{wheel_sizes.TABLE}")
    return 0


def _builder(options: argparse.Namespace) -> int:  # noqa: ARG001
    _tell(find_builder().program)
    return 0


def _remove(options: argparse.Namespace) -> int:  # noqa: ARG001
    builder = find_builder()
    orders = (Order("gpu", tag=cuda_compiler.TAG), Order("gpu"), Order("cpu"), Order("serving"))
    for name in (*(order.name for order in orders), cuda_compiler.IMAGE, base.LOCAL):
        if builder.engine.has(name):
            builder.remove(name)
            _tell(f"removed {name}")
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
