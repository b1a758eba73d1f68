"""The base image: pulled from its registry, or built from Debian's packages."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from common.errors import UserError
from environments.builders import Builder, Recipe

RELEASE: Final = "bookworm"
LOCAL: Final = f"localhost/trainer-base:{RELEASE}"

_DOCKERFILE: Final = 'FROM scratch\nADD root.tar /\nCMD ["/bin/bash"]\n'


def declared(dockerfile: str) -> str:
    """Return the default base image of a Dockerfile.

    Raises:
        UserError: The Dockerfile has no argument BASE_IMAGE.
    """
    line = re.search(r"^ARG BASE_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    if line is None:
        raise UserError("Dockerfile: the line ARG BASE_IMAGE=... is missing; add it")
    return line[1]


def ensure(
    builder: Builder, base_image: str, tell: Callable[[str], None], *, fresh: bool = False
) -> str:
    """Provide a base image: pull it, or build one on this machine.

    Args:
        builder: Builds images.
        base_image: Name of the image in its registry.
        tell: Prints progress.
        fresh: Whether to get the newest image even if there is one on this machine.

    Returns:
        Name of the image on this machine.

    Raises:
        UserError: The image cannot be pulled, and no base can be built either.
    """
    if not fresh:
        for name in (base_image, LOCAL):
            if builder.engine.has(name):
                return name
    tell(f"pulling {base_image}")
    problem = builder.pull(base_image)
    if problem is None:
        return base_image
    tell(f"cannot pull it ({problem}); building a base image from Debian's packages")
    make(builder, base_image)
    return LOCAL


def make(builder: Builder, base_image: str) -> None:
    """Build a minimal Debian image with CA certificates, about 180 MB.

    Args:
        builder: Builds images.
        base_image: Name of the image that it replaces, for errors.

    Raises:
        UserError: mmdebstrap is not installed, or fails.
    """
    if shutil.which("mmdebstrap") is None:
        raise UserError(
            f"{base_image} cannot be pulled, and mmdebstrap, which could build a replacement, is"
            " not installed; run sudo apt-get install mmdebstrap, or pass an available image as"
            " BASE=IMAGE"
        )
    with tempfile.TemporaryDirectory() as folder:
        # mmdebstrap copies this machine's host name and DNS servers, which must not be in an image.
        hook = '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"'
        command = ["mmdebstrap", "--variant=minbase", "--include=ca-certificates", hook, RELEASE]
        bootstrap = subprocess.run(
            [*command, f"{folder}/root.tar"], capture_output=True, text=True, check=False
        )
        if bootstrap.returncode:
            raise UserError(f"mmdebstrap could not build a base image:\n{_end(bootstrap.stderr)}")
        (Path(folder) / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
        build = subprocess.run(
            builder.build_command(Recipe(Path(folder)), LOCAL),
            capture_output=True,
            text=True,
            check=False,
        )
        if build.returncode:
            raise UserError(
                f"{builder.program} could not build a base image:\n{_end(build.stderr)}"
            )


def _end(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-15:])
