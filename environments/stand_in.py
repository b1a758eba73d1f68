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

FOLDER: Final = Path(__file__).with_name("stand_in")
COMPILER: Final = "localhost/trainer-cuda:stand-in"
TAG: Final = "stand-in"
"""Of an image that was compiled with it, and so is none for jobs."""

_SHOWN: Final = 15
"""Lines of a build that has failed."""


def order(builder: Builder, wanted: Order, tell: Callable[[str], None]) -> Order:
    """Make the stand-in; the order that builds with it, under a tag that says so.

    Args:
        builder: what makes images.
        wanted: the order without it.
        tell: shows a person what goes on.

    Raises:
        UserError: the image has no part of CUDA's, or the stand-in cannot be made.
    """
    if wanted.image != "gpu":
        raise UserError(f"trainer-{wanted.image}: has nothing of CUDA that could be stood in for")
    declared = base.declared((FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    begun = wanted.base or base.ensure(builder, declared, tell, fresh=wanted.fresh)
    _make(builder, begun, tell, fresh=wanted.fresh)
    arguments = {**wanted.arguments, "BUILD_IMAGE": COMPILER}
    return replace(wanted, base=begun, arguments=arguments, tag=TAG)


def _make(builder: Builder, begun: str, tell: Callable[[str], None], *, fresh: bool) -> None:
    tell(f"making {COMPILER} out of Debian's packages, 1 GB to download unless it is here")
    since = time.monotonic()
    recipe = Recipe(FOLDER, {"BASE_IMAGE": begun}, fresh=fresh)
    done = subprocess.run(
        builder.build_command(recipe, COMPILER),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        end = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-_SHOWN:])
        raise UserError(f"{COMPILER}: cannot be made; the end of what was said:\n{end}")
    size = builder.size(COMPILER) / 1e9
    tell(f"{COMPILER}: {size:.2f} GB, in {time.monotonic() - since:.1f} s")
