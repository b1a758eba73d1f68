"""Outputs of a stack: from Pulumi's state, or from a file that was written before."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import ProblemsError
from infra.outputs import PlatformOutputs, from_dict
from jobs.errors import PlatformReadError, PulumiMissingError
from jobs.pulumi.cli import OUTPUT, Pulumi


def read_outputs(repository: Path, stack: str | None, file: str | None) -> PlatformOutputs:
    """What the platform tells those who train on it.

    Args:
        repository: folder of Pulumi.yaml.
        stack: to ask Pulumi for.
        file: JSON of the outputs, instead.

    Raises:
        NotDeployedError: the stack exports nothing.
        PlatformReadError: it could not be read, with what to do.
    """
    if file is not None:
        return _from_file(Path(file))
    stack = stack or "dev"
    try:
        return _parse(Pulumi(repository, stack).outputs(), f"stack {stack}")
    except PulumiMissingError as error:
        raise PulumiMissingError(f"{error}, or name a file of the outputs by --outputs") from error


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
        # What `pulumi stack output --json` gives, without the name of one.
        data = data[OUTPUT]
    if not isinstance(data, Mapping):
        raise PlatformReadError(
            f"{source}: holds no outputs; deploy the stack, or write them by `pulumi stack output"
            f" {OUTPUT} --json`"
        )
    try:
        return from_dict(data)
    except ProblemsError as error:
        raise PlatformReadError(f"{source}: {error}") from error
