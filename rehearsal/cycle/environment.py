"""The variables by which another terminal finds a rehearsal that is left running."""

import os
import shlex
from pathlib import Path
from typing import Final

from rehearsal.deployment import Deployment
from rehearsal.errors import RehearsalError
from rehearsal.loopback import owner

FILE: Final = "environment"


def write(folder: Path, stack: Deployment) -> None:
    """Keep the variables in a file that nobody else can read: a client's secret is among them."""
    file = folder / FILE
    file.touch(mode=0o600)
    lines = [f"export {name}={shlex.quote(text)}" for name, text in stack.variables.items()]
    path = os.pathsep.join(shlex.quote(one) for one in stack.path)
    file.write_text("\n".join([*lines, f'export PATH={path}:"$PATH"', ""]), encoding="utf-8")


def read(folder: Path) -> str:
    """The variables as lines for a shell.

    Raises:
        RehearsalError: no rehearsal is left running there.
    """
    file = folder / FILE
    if owner(folder / "azure") is None or not file.is_file():
        raise RehearsalError(
            f"{folder}: no rehearsal is left running there; `make rehearse KEEP=1` starts one, and"
            " is ready when it says so"
        )
    return file.read_text(encoding="utf-8")
