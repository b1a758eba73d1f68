"""Which build of TensorFlow fits this machine: `make setup` installs it. Standard library only.

Prints the name of a lock in locks/ and, after a space, one sentence for people.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.errors import UserError

OLDEST_DRIVER: Final = "525.60.13"
"""Oldest driver for programs of CUDA 12, from NVIDIA's table of minor-version compatibility."""

OLDEST_GPU: Final = (6, 0)
"""Lowest compute capability with compiled code in TensorFlow 2.20's wheels."""

TOO_NEW: Final = (10, 0)
"""Compute capability, that of Blackwell, from which on the wheels have no compiled code."""

_ASKED: Final = "--query-gpu=name,compute_cap,driver_version"
QUERY: Final = ("nvidia-smi", _ASKED, "--format=csv,noheader")


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi describes it."""

    name: str
    capability: tuple[int, int]
    """Compute capability, major and minor."""
    driver: str

    @property
    def too_new(self) -> bool:
        """Whether TensorFlow's wheels have no compiled code for it."""
        return self.capability >= TOO_NEW

    @property
    def unfit(self) -> str | None:
        """Why TensorFlow cannot use it, or None."""
        if self.capability < OLDEST_GPU:
            have, need = (".".join(map(str, version)) for version in (self.capability, OLDEST_GPU))
            return f"{self.name} has compute capability {have}, and TensorFlow needs {need}"
        if self.too_new:
            return (
                f"{self.name} has compute capability {'.'.join(map(str, self.capability))}, for"
                " which TensorFlow 2.20's wheels have no compiled code: the first start would"
                " compile for half an hour, or fail"
            )
        if _numbers(self.driver) < _numbers(OLDEST_DRIVER):
            return (
                f"the driver of {self.name} is {self.driver}, and CUDA 12 needs {OLDEST_DRIVER}"
                " or newer"
            )
        return None


@dataclass(frozen=True)
class Build:
    """A build of TensorFlow."""

    lock: str
    sentence: str


def choose(wanted: str, listed: str) -> Build:
    """Choose a build of TensorFlow.

    Args:
        wanted: "0" for CPUs, "1" for a GPU, "" for a GPU if there is one.
        listed: Output of `QUERY`; empty without an NVIDIA driver.

    Raises:
        UserError: `wanted` is something else, or there is no GPU that is wanted.
    """
    if wanted not in {"", "0", "1"}:
        raise UserError(f"GPU={wanted}: must be 0 (never), 1 (required), or left out")
    if wanted == "0":
        return Build("trainer", "TensorFlow for CPUs, because of GPU=0")
    gpus = read_gpus(listed)
    usable = [gpu for gpu in gpus if gpu.unfit is None]
    if usable:
        names = ", ".join(sorted({gpu.name for gpu in usable}))
        sentence = f"TensorFlow for {names}; `make setup GPU=0` installs it for CPUs"
        return Build("workstation", sentence)
    reason = next((gpu.unfit for gpu in gpus if gpu.unfit), "nvidia-smi shows no GPU")
    too_new = any(gpu.too_new for gpu in gpus)
    if wanted == "1" and too_new:
        return Build("workstation", f"TensorFlow for GPUs, because of GPU=1, although {reason}")
    if wanted == "1":
        raise UserError(f"GPU=1: {reason}; install NVIDIA's driver, or leave GPU=1 out")
    anyway = "; `make setup GPU=1` installs it for GPUs nevertheless" * too_new
    return Build("trainer", f"TensorFlow for CPUs: {reason}{anyway}")


def read_gpus(listed: str) -> list[Gpu]:
    """Read the output of `QUERY`; other lines, such as its errors, are left out."""
    rows = re.findall(r"^(.+), (\d+)\.(\d+), (\d+(?:\.\d+)*)$", listed, re.MULTILINE)
    return [Gpu(name, (int(major), int(minor)), driver) for name, major, minor, driver in rows]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main(arguments: Sequence[str]) -> int:
    """Print the choice; the argument is the value of GPU."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=False)
        listed = done.stdout
    except (OSError, subprocess.TimeoutExpired):
        listed = ""
    try:
        choice = choose("".join(arguments), listed)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(choice.lock, choice.sentence)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
