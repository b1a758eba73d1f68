"""Build an image with the CUDA compiler from Debian's packages, if NVIDIA's cannot be pulled."""

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
"""Tag of images that were compiled with it, which are not for jobs."""

_SHOWN_LINES: Final = 15
"""Number of last lines to show of a failed build."""


def stand_in_order(builder: Builder, order: Order, tell: Callable[[str], None]) -> Order:
    """Build the replacement, and return the order that builds with it, under a tag of its own.

    Args:
        builder: Builds images.
        order: Order without the replacement.
        tell: Prints progress.

    Raises:
        UserError: The image does not use CUDA, or the replacement cannot be built.
    """
    if order.image != "gpu":
        raise UserError(f"trainer-{order.image}: does not use CUDA; omit --stand-in")
    declared = base.declared((FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    base_image = order.base or base.ensure(builder, declared, tell, fresh=order.fresh)
    _make(builder, base_image, tell, fresh=order.fresh)
    arguments = {**order.arguments, "BUILD_IMAGE": IMAGE}
    return replace(order, base=base_image, arguments=arguments, tag=TAG)


def _make(builder: Builder, base_image: str, tell: Callable[[str], None], *, fresh: bool) -> None:
    tell(f"building {IMAGE} from Debian's packages (downloads 1 GB unless it is cached)")
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
        raise UserError(f"{IMAGE}: the build failed; the last lines of its output:\n{end}")
    size = builder.size(IMAGE) / 1e9
    tell(f"{IMAGE}: {size:.2f} GB, in {time.monotonic() - started:.1f} s")
