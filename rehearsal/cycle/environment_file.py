"""The variables by which another terminal finds a rehearsal that is left running."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rehearsal.errors import RehearsalError
from rehearsal.lifetime import owner
from rehearsal.pulumi.deployment import LEADING, Deployment

FILE: Final = "environment"


def write(folder: Path, stack: Deployment) -> None:
    """Keep the variables in a file that nobody else can read: a client's secret is among them."""
    file = folder / FILE
    file.touch(mode=0o600)
    lines = [f"export {name}={shlex.quote(text)}" for name, text in stack.variables.items()]
    path = os.pathsep.join(shlex.quote(folder) for folder in stack.path)
    file.write_text("\n".join([*lines, f'export PATH={path}:"$PATH"', ""]), encoding="utf-8")


def read(folder: Path, shell: Mapping[str, str]) -> str:
    """The variables as lines for a shell.

    Args:
        folder: of the rehearsal.
        shell: variables that it has; those that would lead to another stack, or contradict those
            of the rehearsal as a passphrase does, are unset.

    Raises:
        RehearsalError: no rehearsal is left running there.
    """
    file = folder / FILE
    if owner(folder / "azure") is None or not file.is_file():
        raise RehearsalError(
            f"{folder}: no rehearsal is running there; start one with `make rehearse KEEP=1`, and"
            " wait until it prints this command"
        )
    text = file.read_text(encoding="utf-8")
    others = sorted(
        name
        for name in shell
        if name.startswith(LEADING) and name.isidentifier() and f"export {name}=" not in text
    )
    return "".join([*(f"unset {name}\n" for name in others), text])
