"""Read the outputs of a stack, from Pulumi's state or from a file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import ProblemsError
from infra.outputs import PlatformOutputs, from_dict
from jobs.errors import PlatformReadError, PulumiMissingError
from jobs.pulumi.cli import OUTPUT, Pulumi


def read_outputs(repository: Path, stack: str | None, file: str | None) -> PlatformOutputs:
    """Read the outputs of a stack.

    Args:
        repository: Folder of Pulumi.yaml.
        stack: Name of the stack; None is dev.
        file: JSON file with the outputs, which is read instead of Pulumi's state.

    Raises:
        NotDeployedError: The stack has no outputs.
        PlatformReadError: The outputs could not be read.
    """
    if file is not None:
        return _from_file(Path(file))
    stack = stack or "dev"
    try:
        return _parse(Pulumi(repository, stack).outputs(), f"stack {stack}")
    except PulumiMissingError as error:
        raise PulumiMissingError(f"{error}, or pass a file of the outputs as --outputs") from error


def _from_file(path: Path) -> PlatformOutputs:
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise PlatformReadError(f"--outputs: {path}: {error.strerror}") from error
    except ValueError as error:
        raise PlatformReadError(f"--outputs: {path}: is not JSON ({error})") from error
    return _parse(data, f"--outputs: {path}")


def _parse(data: Any, source: str) -> PlatformOutputs:
    if isinstance(data, Mapping) and OUTPUT in data and "workspace" not in data:
        # The form that `pulumi stack output --json` prints without the name of an output.
        data = data[OUTPUT]
    if not isinstance(data, Mapping):
        raise PlatformReadError(
            f"{source}: contains no outputs; deploy the stack, or write the file with `pulumi stack"
            f" output {OUTPUT} --json`"
        )
    try:
        return from_dict(data)
    except ProblemsError as error:
        raise PlatformReadError(f"{source}: {error}") from error
