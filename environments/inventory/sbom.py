"""Write the bill of materials of an image: its components, their origins and licences.

Debian's packages are read from dpkg's database, Python distributions from their metadata. One
CycloneDX file lists both, and a report on licences is made from it. The output is reproducible.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.spdx import fixup_id
from cyclonedx.validation.json import JsonStrictValidator
from debsbom.apt.copyright import WELL_KNOWN_EXPRESSIONS
from debsbom.dpkg.package import SourcePackage, filter_binaries
from debsbom.generate import Debsbom, SBOMType
from debsbom.generate.generate import DistroArchUnknownError

from common.errors import UserError
from environments.inventory.distributions import distributions
from environments.inventory.licences import MENTIONED, TEXT, report

SBOM: Final = "sbom.json"
LICENCES: Final = "licences.txt"
SCHEMA: Final = SchemaVersion.V1_6
STATUS: Final = "var/lib/dpkg/status"
RELEASE: Final = "etc/os-release"

_VERSION: Final = re.compile(r'^VERSION_ID="?([^"\n]*)', re.MULTILINE)
_COMMON: Final = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])")


def write(root: Path, to: Path, name: str) -> None:
    """Write `sbom.json` and `licences.txt`.

    Args:
        root: Root folder of the image.
        to: Folder for both files, created if it is missing.
        name: Name of the image.

    Raises:
        UserError: The folder is not the root of a Debian system, or its metadata cannot be read.
    """
    text = serialized(bill(root, name))
    to.mkdir(parents=True, exist_ok=True)
    (to / SBOM).write_text(text, encoding="utf-8")
    (to / LICENCES).write_text(report(json.loads(text)), encoding="utf-8")


def bill(root: Path, name: str) -> Bom:
    """Read the components of an image.

    Args:
        root: Root folder of the image.
        name: Name of the image.

    Raises:
        UserError: The folder is not the root of a Debian system, or its metadata cannot be read.
    """
    bom = debian(root)
    system = bom.metadata.component
    installed = list(distributions(root))
    image = Component(type=ComponentType.CONTAINER, name=name, bom_ref=f"image {name}")
    bom.metadata.component = image
    bom.components.add(system)
    bom.components.update(installed)
    bom.register_dependency(image, [system, *installed])
    return bom


def debian(root: Path) -> Bom:
    """Read the installed Debian packages.

    Args:
        root: Root folder of the image.

    Raises:
        UserError: The folder is not the root of a Debian system.
    """
    for needed in (STATUS, RELEASE):
        if not (root / needed).is_file():
            raise UserError(f"{root / needed}: is missing; pass the root folder of a Debian system")
    release = _VERSION.search((root / RELEASE).read_text(encoding="utf-8"))
    scanned = Debsbom(
        "debian", root=root, distro_version=release[1] if release else None, with_licenses=True
    )
    try:
        scanned.scan()
    except DistroArchUnknownError as error:
        raise UserError(f"{root / STATUS}: the architecture of dpkg is missing") from error
    bom: Bom = scanned.generate(SBOMType.CycloneDX)
    components = {component.bom_ref.value: component for component in bom.components}
    sources = {package.purl(): package for package in scanned.packages if package.is_source()}
    for package in filter_binaries(scanned.packages):
        component = components[package.purl().to_string()]
        source = sources[package.source_package().purl()]
        copyright_file = Path("usr/share/doc", package.name, "copyright")
        # debsbom lists licences at source packages, while readers look at installed ones.
        component.licenses = components[source.purl().to_string()].licenses or named(source)
        if (root / copyright_file).is_file():
            text = (root / copyright_file).read_text(encoding="utf-8", errors="replace")
            component.properties.add(Property(name=TEXT, value=str(copyright_file)))
            component.properties.update(
                Property(name=MENTIONED, value=mentioned) for mentioned in _COMMON.findall(text)
            )
    return bom


def named(source: SourcePackage) -> list[License]:
    """Return the licences in a machine-readable copyright file whose names are not all known to
    SPDX.
    """
    if source.copyright is None:
        return []
    names = {licence.synopsis for licence in source.copyright.licenses()} - {""}
    spdx = {WELL_KNOWN_EXPRESSIONS.get(name, name) for name in names}
    return [DisjunctiveLicense(name=name) for name in sorted({fixup_id(n) or n for n in spdx})]


def serialized(bom: Bom) -> str:
    """Serialize to CycloneDX JSON. The serial number is a hash of the rest, and the time is
    SOURCE_DATE_EPOCH, if it is set.

    Raises:
        UserError: The result violates CycloneDX's schema.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    bom.metadata.timestamp = datetime.fromtimestamp(int(epoch), UTC) if epoch else None
    bom.serial_number = UUID(int=0)
    bom.serial_number = uuid5(NAMESPACE_URL, _json(bom))
    text = _json(bom)
    if error := JsonStrictValidator(SCHEMA).validate_str(text):
        raise UserError(f"the bill of materials violates CycloneDX's schema: {error}")
    return text


def _json(bom: Bom) -> str:
    return f"{make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=2)}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bill of materials of a root folder; return 1 if that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m environments.inventory.sbom", description=__doc__
    )
    parser.add_argument("root", type=Path, help="root folder of the image")
    parser.add_argument("--to", type=Path, required=True, help=f"folder for {SBOM} and {LICENCES}")
    parser.add_argument("--name", help="name of the image (default: name of the folder in --to)")
    options = parser.parse_args(arguments)
    try:
        write(options.root, options.to, options.name or options.to.name)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.to / SBOM}, {options.to / LICENCES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
