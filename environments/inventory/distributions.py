"""Python distributions in the root folder of an image, as components of a bill of materials.

They are read from their metadata; no program of the image is run. The components of a distribution
are what its wheel contains: vendored distributions, copied shared libraries, and what its own bill
of materials (PEP 770) declares.
"""

import base64
import json
import re
from collections.abc import Iterator
from importlib.metadata import PackageMetadata, PackagePath, PathDistribution
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.exception import CycloneDxException
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.spdx import is_expression, is_supported_id
from packageurl import PackageURL

from common.errors import UserError
from environments.inventory.licences import FOLDER, TEXT

SPDX: Final = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
}
"""SPDX identifiers of unambiguous licence names in lower case. "BSD License" is ambiguous."""

_LICENCE_FILE: Final = re.compile(r"(licen[cs]e|copying|notice)", re.IGNORECASE)
_CODE: Final = {".py", ".pyi", ".pyc"}
_FACTORY: Final = LicenseFactory()


def distributions(root: Path) -> Iterator[Component]:
    """Iterate over all distributions except those of Debian's packages.

    Args:
        root: Root folder of the image.

    Raises:
        UserError: The metadata of a distribution cannot be read.
    """
    for folder in sorted(root.rglob("*-packages")):
        own = folder.relative_to(root).parts[:3] != ("usr", "lib", "python3")
        if folder.name in {"site-packages", "dist-packages"} and own and not folder.is_symlink():
            for metadata in sorted(folder.glob("*.dist-info")):
                yield distribution(root, metadata)


def distribution(root: Path, folder: Path) -> Component:
    """Read a distribution and its components.

    Args:
        root: Root folder of the image.
        folder: Metadata folder of the distribution.

    Raises:
        UserError: The metadata cannot be read.
    """
    installed = PathDistribution(folder)
    name, version = installed.metadata["Name"], installed.metadata["Version"]
    if not name or not version:
        raise UserError(f"{folder}: METADATA is missing, or has no name or version")
    files = installed.files or []
    location = folder.relative_to(root)
    texts = sorted(
        (folder.parent / file for file in files if _is_licence(file)),
        # The distribution's own texts come before those of its components.
        key=lambda path: (not path.is_relative_to(folder), path),
    )
    purl = PackageURL("pypi", None, name, version)
    within: dict[str, Component] = {}
    for file in files:
        for part in _inside(root, folder, file):
            # A wheel's bill of materials also lists the distribution itself and its modules.
            if part.purl is None or part.purl[:4] != purl[:4]:
                within.setdefault(f"{part.name} {part.version}", part)
    for key, part in within.items():
        part.bom_ref.value = f"{location}#{key}"
    return Component(
        type=ComponentType.LIBRARY,
        bom_ref=str(location),
        name=name,
        version=version,
        description=installed.metadata["Summary"],
        purl=purl,
        licenses=[_FACTORY.make_from_string(declared)]
        if (declared := licence(installed.metadata))
        else (),
        components=within.values(),
        properties=[
            Property(name=FOLDER, value=str(location.parent)),
            *(
                Property(name=TEXT, value=str(text.relative_to(root)))
                for text in texts
                if text.is_file()
            ),
        ],
    )


def licence(metadata: PackageMetadata) -> str | None:
    """Read the licence in a distribution's metadata: as an SPDX expression if it is unambiguous,
    else as it is written.
    """
    if expression := metadata["License-Expression"]:
        return str(expression)
    field = str(metadata["License"] or "").strip()
    kinds = [
        kind.split(" :: ")[-1]
        for kind in metadata.get_all("Classifier") or []
        if kind.startswith("License :: ")
    ]
    # The field often contains the licence's whole text, or nothing.
    stated = "" if "\n" in field or field.upper() == "UNKNOWN" else field
    words = ", ".join(kinds)
    for candidate in filter(None, (stated, words)):
        known = SPDX.get(candidate.lower(), candidate)
        if is_supported_id(known) or is_expression(known):
            return known
    # A name in the field says more than the classifier "Other/Proprietary License".
    return stated if stated and words.startswith("Other/") else words or stated or None


def _is_licence(file: PackagePath) -> bool:
    return bool(_LICENCE_FILE.search(file.name)) and file.suffix not in _CODE


def _inside(root: Path, folder: Path, file: PackagePath) -> Iterator[Component]:
    """Find the components of a distribution that one of its files reveals."""
    path = folder.parent / file
    if file.name == "METADATA" and path.parent != folder and path.is_file():
        yield distribution(root, path.parent)
    elif path.parent == folder / "sboms" and path.is_file():
        yield from _declared(path)
    elif file.parts[0].endswith(".libs") and ".so" in file.name:
        hashes = []
        if file.hash and file.hash.mode == "sha256":
            digest = base64.urlsafe_b64decode(f"{file.hash.value}=").hex()
            hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest)]
        yield Component(type=ComponentType.FILE, name=str(file), hashes=hashes)


def _declared(path: Path) -> Iterator[Component]:
    """Read the components of a wheel's bill of materials: name, version, package URL, licence."""
    try:
        bill = json.loads(path.read_text(encoding="utf-8"))
        if bill.get("bomFormat") != "CycloneDX":
            raise UserError(f"{path}: is not in CycloneDX format, the only one supported")
        for part in Bom.from_json(bill).components:
            yield Component(
                type=part.type,
                name=part.name,
                version=part.version,
                purl=part.purl,
                licenses=part.licenses,
            )
    except (AttributeError, CycloneDxException, TypeError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a bill of materials: {error}") from error
