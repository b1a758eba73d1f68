"""The environment variables that let another terminal use a rehearsal that was kept running."""

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
    """Write the variables to a file that only its owner can read: it contains a client secret."""
    file = folder / FILE
    file.touch(mode=0o600)
    lines = [f"export {name}={shlex.quote(text)}" for name, text in stack.variables.items()]
    path = os.pathsep.join(shlex.quote(folder) for folder in stack.path)
    file.write_text("\n".join([*lines, f'export PATH={path}:"$PATH"', ""]), encoding="utf-8")


def read(folder: Path, shell: Mapping[str, str]) -> str:
    """Return the variables as lines for a shell.

    Args:
        folder: Folder of the rehearsal.
        shell: Environment of the shell. Variables that would select another stack, or contradict
            those of the rehearsal as a passphrase does, are unset.

    Raises:
        RehearsalError: no rehearsal is running there.
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
