"""CUDA's compiler out of Debian's packages, where NVIDIA's image of it cannot be pulled."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from common.errors import UserError
from environments import base
from environments.build import Order
from environments.builders import Builder, Recipe

FOLDER: Final = Path(__file__).parent
IMAGE: Final = "localhost/trainer-cuda:stand-in"
TAG: Final = "stand-in"
"""Of an image that was compiled with it, and so is none for jobs."""

_SHOWN_LINES: Final = 15
"""Lines of a build that has failed."""


def stand_in_order(builder: Builder, order: Order, tell: Callable[[str], None]) -> Order:
    """Make the stand-in; the order that builds with it, under a tag that says so.

    Args:
        builder: what makes images.
        order: the order without it.
        tell: shows a person what goes on.

    Raises:
        UserError: the image has no part of CUDA's, or the stand-in cannot be made.
    """
    if order.image != "gpu":
        raise UserError(f"trainer-{order.image}: has nothing of CUDA that could be stood in for")
    declared = base.declared((FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    base_image = order.base or base.ensure(builder, declared, tell, fresh=order.fresh)
    _make(builder, base_image, tell, fresh=order.fresh)
    arguments = {**order.arguments, "BUILD_IMAGE": IMAGE}
    return replace(order, base=base_image, arguments=arguments, tag=TAG)


def _make(builder: Builder, base_image: str, tell: Callable[[str], None], *, fresh: bool) -> None:
    tell(f"making {IMAGE} out of Debian's packages, 1 GB to download unless it is here")
    started = time.monotonic()
    recipe = Recipe(FOLDER, {"BASE_IMAGE": base_image}, fresh=fresh)
    completed = subprocess.run(
        builder.build_command(recipe, IMAGE),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if completed.returncode:
        end = "\n".join(f"  {line}" for line in completed.stdout.splitlines()[-_SHOWN_LINES:])
        raise UserError(f"{IMAGE}: cannot be made; the end of what was said:\n{end}")
    size = builder.size(IMAGE) / 1e9
    tell(f"{IMAGE}: {size:.2f} GB, in {time.monotonic() - started:.1f} s")
