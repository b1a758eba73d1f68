"""How much the wheels of an image's lock take in it, known before any image is built.

`python -m environments sizes SITE-PACKAGES...` writes wheel-sizes.csv from environments that were
installed from the locks; a test compares its versions with the locks, and its sums with the images'
limits.
"""

import csv
import re
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from environments.build import BUDGET
from jobs.spec.build_context import Image

TABLE: Final = Path(__file__).with_name("wheel-sizes.csv")

REST: Final[Mapping[Image, int]] = {"cpu": 430_000_000, "gpu": 500_000_000}
"""Bytes that no wheel brings: Debian, Python, Open MPI, and Horovod, which is compiled. Estimated
from the last images that were built, less the sums of their wheels."""

_REMOVED: Final = "tensorflow/include/"
"""Folder that the Dockerfiles delete."""

_BYTECODE: Final = 1.3
"""Bytes of bytecode for each byte of Python source, measured over the trainer's packages."""


def measure(folder: Path) -> dict[str, tuple[str, int]]:
    """Return version and bytes of each package of a folder `site-packages`, and of the bytecode
    that pip will add.
    """
    return {
        _normal(distribution.metadata["Name"]): (distribution.version, _bytes(distribution))
        for distribution in distributions(path=[str(folder)])
    }


def write(sizes: Mapping[str, tuple[str, int]]) -> None:
    """Write the table."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("package", "version", "bytes"))
        rows.writerows((name, *sizes[name]) for name in sorted(sizes))


def read() -> dict[str, tuple[str, int]]:
    """Read the table: version and bytes by package."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["package"]: (row["version"], int(row["bytes"])) for row in csv.DictReader(file)}


def locked(lock: str) -> dict[str, str]:
    """Return the versions of a lock file's packages but Horovod's, which is not a wheel."""
    versions = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock, re.MULTILINE))
    return {name: version for name, version in versions.items() if name != "horovod"}


def problems(image: Image, lock: str, sizes: Mapping[str, tuple[str, int]]) -> list[str]:
    """Say which packages of an image's lock are not in the table, or that they are too large.

    Args:
        image: Name of the image.
        lock: Text of its lock file.
        sizes: As `read` returns them.
    """
    packages = locked(lock)
    unknown = [
        f"{name} {version} is not in environments/wheel-sizes.csv; see environments/wheel_sizes.py"
        for name, version in packages.items()
        if sizes.get(name, ("", 0))[0] != version
    ]
    if unknown:
        return unknown
    limit, rest = BUDGET[image], REST[image]
    total = rest + sum(sizes[name][1] for name in packages)
    if total <= limit:
        return []
    largest = sorted(packages, key=lambda name: -sizes[name][1])[:8]
    listed = ", ".join(f"{name} {sizes[name][1] / 1e6:.0f} MB" for name in largest)
    return [
        f"image {image} would have {total / 1e9:.2f} GB, more than its limit of"
        f" {limit / 1e9:.2f} GB; the largest packages are {listed}"
    ]


def _bytes(package: Distribution) -> int:
    files = {Path(str(file.locate())) for file in package.files or ()}
    sizes = (
        file.stat().st_size * (1 + _BYTECODE if file.suffix == ".py" else 1)
        for file in files
        if file.suffix != ".pyc" and _REMOVED not in file.as_posix() and file.is_file()
    )
    return round(sum(sizes))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
