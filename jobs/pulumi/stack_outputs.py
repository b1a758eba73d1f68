"""Outputs of a stack: from Pulumi's state, or from a file that was written before."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infra.errors import OutputsError
from infra.outputs import PlatformOutputs, from_dict
from jobs.errors import NotDeployedError, PlatformReadError

OUTPUT: Final = "platform"
"""Name of the stack output."""

SECONDS: Final = 120
"""That Pulumi may take to read its state."""

_CAUSES: Final = (
    (
        ("no stack named", "no such stack"),
        NotDeployedError,
        "there is no stack {stack}; `pulumi stack ls` lists those of this backend, and"
        " `make up STACK={stack}` deploys it",
    ),
    (
        ("passphrase", "incorrect secret", "failed to decrypt"),
        PlatformReadError,
        "the state is encrypted; give PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE in"
        " the environment, or sign in to the key that encrypts it",
    ),
    (
        ("pulumi login", "not logged in", "access token", "pulumi_access_token", "unauthorized"),
        PlatformReadError,
        "run `pulumi login` with the address of the team's state",
    ),
    (
        ("does not have output property", "no output property", "current stack has no output"),
        NotDeployedError,
        "the stack {stack} has never been deployed to its end; run `make up STACK={stack}`",
    ),
)
"""What Pulumi says, in lower case, which error it is and what to do about it."""


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
    return _from_pulumi(repository, stack or "dev")


def _from_file(path: Path) -> PlatformOutputs:
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise PlatformReadError(f"--outputs: {path}: {error.strerror}") from error
    except ValueError as error:
        raise PlatformReadError(f"--outputs: {path}: is not JSON ({error})") from error
    return _parsed(found, f"--outputs: {path}")


def _from_pulumi(repository: Path, stack: str) -> PlatformOutputs:
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise PlatformReadError(
            "pulumi: is not on the path; install its command line"
            " (https://www.pulumi.com/docs/install), or name a file of the outputs by --outputs"
        )
    command = [pulumi, "stack", "output", OUTPUT, "--json", "--stack", stack, "--non-interactive"]
    try:
        ended = subprocess.run(
            command,
            cwd=repository,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PlatformReadError(
            f"pulumi: has not read the stack {stack} in {SECONDS} s; look at the network, and"
            " whether the place of its state answers (`pulumi whoami -v`)"
        ) from error
    except OSError as error:
        raise PlatformReadError(f"{pulumi}: cannot be run ({error.strerror})") from error
    if ended.returncode != 0:
        raise cause(ended.stderr or ended.stdout, stack)
    try:
        found = json.loads(ended.stdout)
    except ValueError as error:
        raise PlatformReadError(
            f"pulumi: its answer for the stack {stack} is not JSON ({error}); look at what"
            f" `pulumi stack output {OUTPUT} --json --stack {stack}` prints"
        ) from error
    return _parsed(found, f"stack {stack}")


def cause(said: str, stack: str) -> PlatformReadError:
    """The error for one of Pulumi's, with its own words and what to do."""
    words = " ".join(said.split()).removeprefix("error: ")
    low = words.lower()
    for signs, kind, advice in _CAUSES:
        if any(sign in low for sign in signs):
            return kind(f"pulumi: {words}\n{advice.format(stack=stack)}")
    return PlatformReadError(f"pulumi: could not read the stack {stack}: {words}")


def _parsed(found: Any, where: str) -> PlatformOutputs:
    if isinstance(found, Mapping) and OUTPUT in found and "workspace" not in found:
        # What `pulumi stack output --json` gives, without the name of one.
        found = found[OUTPUT]
    if not isinstance(found, Mapping):
        raise PlatformReadError(
            f"{where}: holds no outputs; deploy the stack, or write them by `pulumi stack output"
            f" {OUTPUT} --json`"
        )
    try:
        return from_dict(found)
    except OutputsError as error:
        raise PlatformReadError(f"{where}: {error}") from error
