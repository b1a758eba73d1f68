"""The image that all begins with: pulled from its registry, or made from Debian's packages."""

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
    """The base that a Dockerfile begins with if it is told no other.

    Raises:
        UserError: it has no such argument.
    """
    found = re.search(r"^ARG BASE_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    if found is None:
        raise UserError("the Dockerfile has no line ARG BASE_IMAGE=...")
    return found[1]


def ensure(
    builder: Builder, wanted: str, tell: Callable[[str], None], *, fresh: bool = False
) -> str:
    """The name of a base that is here: the wanted one, or one made on this machine.

    Args:
        builder: what makes images.
        wanted: name of the image in its registry.
        tell: shows a person what goes on.
        fresh: whether the newest is wanted, whatever is here.

    Raises:
        UserError: the registry cannot be reached, and no base can be made here either.
    """
    if not fresh:
        for name in (wanted, LOCAL):
            if builder.engine.has(name):
                return name
    tell(f"pulling {wanted}")
    problem = builder.pull(wanted)
    if problem is None:
        return wanted
    tell(f"it cannot be pulled ({problem}), so a base is made from Debian's packages")
    make(builder, wanted)
    return LOCAL


def make(builder: Builder, wanted: str) -> None:
    """Make the smallest Debian that has authorities to trust, about 180 MB.

    Args:
        builder: what makes images.
        wanted: what it is made in place of, for errors.

    Raises:
        UserError: mmdebstrap is not installed, or fails.
    """
    if shutil.which("mmdebstrap") is None:
        raise UserError(
            f"{wanted} cannot be pulled, and mmdebstrap, which could make a base in its place, is"
            " not installed: sudo apt-get install mmdebstrap, or name a base that can be had with"
            " BASE=IMAGE"
        )
    with tempfile.TemporaryDirectory() as folder:
        # It copies this machine's name and its servers of names, which are none of the image's.
        hook = '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"'
        command = ["mmdebstrap", "--variant=minbase", "--include=ca-certificates", hook, RELEASE]
        made = subprocess.run(
            [*command, f"{folder}/root.tar"], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise UserError(f"mmdebstrap could not make a base:\n{_end(made.stderr)}")
        (Path(folder) / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
        built = subprocess.run(
            builder.build_command(Recipe(Path(folder)), LOCAL),
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise UserError(f"{builder.program} could not make a base:\n{_end(built.stderr)}")


def _end(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-15:])
