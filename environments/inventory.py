"""The bill of materials of an image, and a report on the licences in it.

Syft reads the files of the image, without running any of them: dpkg's database, and the metadata of
Python distributions.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from common.errors import UserError

SBOM: Final = "sbom.json"
LICENCES: Final = "licences.txt"


def write(syft: Path, root: Path, to: Path, name: str) -> None:
    """Write `sbom.json` (CycloneDX 1.6) and `licences.txt`.

    The same files give the same bytes: the serial number is a hash of the rest, and the time is
    SOURCE_DATE_EPOCH, if it is set.

    Args:
        syft: The program.
        root: Root folder of the image.
        to: Folder for both files, created if it is missing.
        name: Name of the image.

    Raises:
        UserError: The folder is not the root of a Debian system, or cannot be read.
    """
    if not (root / "var/lib/dpkg/status").is_file():
        raise UserError(f"{root}: has no var/lib/dpkg/status; pass the root folder of an image")
    # The readers for images list installed packages, not those that a requirements.txt mentions.
    command = [str(syft), "scan", f"dir:{root}", "--override-default-catalogers", "image"]
    command += ["--quiet", "--source-name", name, "--output", "cyclonedx-json@1.6"]
    offline = os.environ | {"SYFT_CHECK_FOR_APP_UPDATE": "false"}
    done = subprocess.run(command, env=offline, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{root}: syft could not read it: {done.stderr.strip()}")
    bill = json.loads(done.stdout)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    del bill["metadata"]["timestamp"], bill["serialNumber"]
    if epoch:
        bill["metadata"]["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).isoformat()
    bill["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(bill, sort_keys=True)).urn
    to.mkdir(parents=True, exist_ok=True)
    (to / SBOM).write_text(f"{json.dumps(bill, indent=1)}\n", encoding="utf-8")
    (to / LICENCES).write_text(report(bill), encoding="utf-8")


def report(bill: Mapping[str, Any]) -> str:
    """Format a report: how many packages have each licence, and the licences of each package."""
    packages = [package for package in bill["components"] if package["type"] == "library"]
    licences = {id(package): list(_licences(package)) or ["unknown"] for package in packages}
    counts = Counter(name for names in licences.values() for name in names)
    rows = sorted(
        (package["name"], package.get("version", ""), ", ".join(licences[id(package)]))
        for package in packages
    )
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    lines = [
        f"Licences in {bill['metadata']['component']['name']}: {len(packages)} packages",
        "As declared by their authors, and not verified. A package with several licences counts for"
        " each.",
        "",
        *(f"{count:6}  {name}" for name, count in sorted(counts.items(), key=_most_first)),
        "",
        *(f"{name:{widths[0]}}  {version:{widths[1]}}  {of}" for name, version, of in rows),
    ]
    return "\n".join(lines) + "\n"


def _licences(component: Mapping[str, Any]) -> Iterator[str]:
    """Yield the licences that a component declares: expressions, identifiers, or names."""
    for entry in component.get("licenses", ()):
        stated = entry.get("license", {})
        name = entry.get("expression") or stated.get("id") or stated.get("name")
        if name and name != "UNKNOWN":
            yield str(name)


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]
