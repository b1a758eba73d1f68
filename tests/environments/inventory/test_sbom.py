"""The bill of materials is read from an image's files, without running any of them."""

import base64
import hashlib
import json
import os
import subprocess

import pytest

from environments.inventory.licences import report, single
from tests import ROOT

pytestmark = pytest.mark.slow

PYTHON = ROOT / ".tools" / "sbom" / "bin" / "python"
SITE = "opt/trainer/lib/python3.11/site-packages"
LIBRARY = b"a shared library"

STATUS = """\
Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22
Maintainer: Some One <one@example.org>
Description: tells the architecture

Package: libone1
Status: install ok installed
Architecture: amd64
Source: one (1.0-2)
Version: 1.0-2+b1
Maintainer: Some One <one@example.org>
Depends: two
Description: the first

Package: two
Status: install ok installed
Architecture: all
Version: 2:2.0-1
Maintainer: Some One <one@example.org>
Description: the second

Package: three
Status: install ok installed
Architecture: all
Version: 3.0
Maintainer: Some One <one@example.org>
Description: the third

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 4.0
Maintainer: Some One <one@example.org>
Description: removed, but for its configuration
"""
FORMAT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
COPYRIGHTS = {
    "libone1": f"{FORMAT}\nFiles: *\nCopyright: One\nLicense: GPL-2+\n",
    "two": f"{FORMAT}\nFiles: *\nCopyright: One\nLicense: Odd-One\n"
    "\nFiles: two\nCopyright: One\nLicense: Expat\n",
    "three": "It is free. See /usr/share/common-licenses/LGPL-2.1.\n",
}


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def hashed(content):
    digest = hashlib.sha256(content).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def installed(site, name, version, metadata="", files=()):
    """Write a distribution whose RECORD lists its metadata and the given files."""
    folder = site / f"{name}-{version}.dist-info"
    written(
        folder / "METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{metadata}"
    )
    files = {f"{folder.name}/METADATA": b"", **dict(files)}
    for file, content in files.items():
        if content:
            written(site / file, content)
    lines = [f"{file},{hashed(content)},{len(content)}" for file, content in files.items()]
    written(folder / "RECORD", "\n".join([*lines, f"{folder.name}/RECORD,,"]) + "\n")


def cyclonedx(*components):
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "components": components}
    return json.dumps(bill).encode()


def small(root):
    """Write the files of a small image."""
    written(root / "etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    written(root / "var/lib/dpkg/status", STATUS)
    for package, text in COPYRIGHTS.items():
        written(root / "usr/share/doc" / package / "copyright", text)
    site = root / SITE
    installed(
        site, "exact", "1.0", "License-Expression: MIT OR Apache-2.0\n",
        {"exact-1.0.dist-info/licenses/LICENSE": b"the text"},
    )  # fmt: skip
    installed(
        site, "vague", "2.0", "License: BSD\nClassifier: License :: OSI Approved :: BSD License\n"
    )
    installed(site, "silent", "3.0", "License: UNKNOWN\n")
    installed(
        site, "closed", "5.0",
        "License: Own Terms\nClassifier: License :: Other/Proprietary License\n",
    )  # fmt: skip
    installed(
        site, "carrier", "4.0", "License: Apache 2.0\n",
        {
            "carrier.libs/libdeep-1234.so.5": LIBRARY,
            "carrier-4.0.dist-info/sboms/auditwheel.cdx.json": cyclonedx(
                {"type": "library", "name": "Carrier", "version": "4.0",
                 "purl": "pkg:pypi/carrier@4.0?file_name=carrier.whl"},
                {"type": "library", "name": "deep", "version": "5.1",
                 "purl": "pkg:generic/deep@5.1", "licenses": [{"license": {"id": "Zlib"}}]},
            ),
            "carrier/_vendor/inner-0.1.dist-info/METADATA":
                b"Metadata-Version: 2.1\nName: inner\nVersion: 0.1\nLicense: MIT License\n",
        },
    )  # fmt: skip
    # Debian's own, which dpkg accounts for.
    installed(root / "usr/lib/python3/dist-packages", "debians", "9.9")
    return root


def run(root, to, **environment):
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} is not there; make test-trainer installs it")
    return subprocess.run(
        [PYTHON, "-m", "environments.inventory.sbom", root, "--to", to, "--name", "trainer-small"],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with `root` and its bill of materials."""
    folder = tmp_path_factory.mktemp("image")
    done = run(small(folder / "root"), folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def bill(folder):
    return json.loads((folder / "sbom.json").read_text())


def named(components, name):
    (found,) = [one for one in components if one["name"] == name]
    return found


def addresses(bill):
    return {one["purl"]: one for one in bill["components"] if "purl" in one}


def test_packages_of_debian_have_the_licence_of_their_source(bill):
    found = addresses(bill)
    assert {address for address in found if address.startswith("pkg:deb")} == {
        "pkg:deb/debian/dpkg@1.21.22?arch=amd64",
        "pkg:deb/debian/dpkg@1.21.22?arch=source",
        "pkg:deb/debian/libone1@1.0-2%2Bb1?arch=amd64",
        "pkg:deb/debian/one@1.0-2?arch=source",
        "pkg:deb/debian/two@2:2.0-1?arch=all",
        "pkg:deb/debian/two@2:2.0-1?arch=source",
        "pkg:deb/debian/three@3.0?arch=all",
        "pkg:deb/debian/three@3.0?arch=source",
    }
    one, two, three = (
        found[f"pkg:deb/debian/{package}"]
        for package in (
            "libone1@1.0-2%2Bb1?arch=amd64",
            "two@2:2.0-1?arch=all",
            "three@3.0?arch=all",
        )
    )
    assert [entry["expression"] for entry in one["licenses"]] == ["GPL-2.0-or-later"]
    # SPDX knows one of them only, so both are names.
    assert [entry["license"]["name"] for entry in two["licenses"]] == ["MIT", "Odd-One"]
    assert "licenses" not in three
    assert {"name": "licences-mentioned", "value": "LGPL-2.1"} in three["properties"]
    assert {"name": "licence-text", "value": "usr/share/doc/three/copyright"} in three["properties"]


def test_python_distributions_are_there_with_what_they_carry(bill):
    found = {name: one for name, one in addresses(bill).items() if name.startswith("pkg:pypi")}
    assert list(found) == [
        f"pkg:pypi/{name}"
        for name in ("carrier@4.0", "closed@5.0", "exact@1.0", "silent@3.0", "vague@2.0")
    ]
    licences = {one["name"]: one.get("licenses") for one in found.values()}
    assert licences == {
        "exact": [{"expression": "MIT OR Apache-2.0"}],
        "vague": [{"license": {"name": "BSD License"}}],
        "silent": None,
        "closed": [{"license": {"name": "Own Terms"}}],
        "carrier": [{"license": {"id": "Apache-2.0"}}],
    }
    inside = found["pkg:pypi/carrier@4.0"]["components"]
    assert {one["name"] for one in inside} == {"carrier.libs/libdeep-1234.so.5", "deep", "inner"}
    library, deep = named(inside, "carrier.libs/libdeep-1234.so.5"), named(inside, "deep")
    assert library["type"] == "file"
    assert library["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(LIBRARY).hexdigest()}]
    assert (deep["version"], deep["licenses"]) == ("5.1", [{"license": {"id": "Zlib"}}])
    assert named(inside, "inner")["licenses"] == [{"license": {"id": "MIT"}}]


def test_the_image_depends_on_its_system_and_on_what_is_installed(bill):
    image = bill["metadata"]["component"]
    assert (image["type"], image["name"]) == ("container", "trainer-small")
    system = named(bill["components"], "debian")
    assert (system["type"], system["version"]) == ("operating-system", "12")
    depends = named([{"name": one["ref"], **one} for one in bill["dependencies"]], image["bom-ref"])
    assert set(depends["dependsOn"]) == {
        system["bom-ref"],
        *(
            one["bom-ref"]
            for one in bill["components"]
            if one.get("purl", "").startswith("pkg:pypi")
        ),
    }


def test_the_same_files_give_the_same_bytes(folder, tmp_path):
    assert run(folder / "root", tmp_path, PYTHONHASHSEED="1").returncode == 0
    for name in ("sbom.json", "licences.txt"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_the_time_is_the_one_that_the_build_is_given(folder, bill, tmp_path):
    assert "timestamp" not in bill["metadata"]
    run(folder / "root", tmp_path, SOURCE_DATE_EPOCH="86400")
    dated = json.loads((tmp_path / "sbom.json").read_text())
    assert dated["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"
    assert dated["serialNumber"] != bill["serialNumber"]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("var/lib/dpkg/status", None, "var/lib/dpkg/status: is missing"),
        ("var/lib/dpkg/status", b"", "var/lib/dpkg/status: the architecture"),
        (f"{SITE}/silent-3.0.dist-info/METADATA", b"", "silent-3.0.dist-info: METADATA is missing"),
        (f"{SITE}/carrier-4.0.dist-info/sboms/auditwheel.cdx.json", b'{"spdxVersion": "SPDX-2.3"}',
         "auditwheel.cdx.json: is not in CycloneDX"),
        (f"{SITE}/carrier-4.0.dist-info/sboms/auditwheel.cdx.json", b"{",
         "auditwheel.cdx.json: cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_an_error_that_names_the_file(tmp_path, file, content, said):
    root = small(tmp_path / "root")
    (root / file).unlink()
    if content is not None:
        (root / file).write_bytes(content)
    done = run(root, tmp_path / "to")
    assert done.returncode == 1
    assert said in done.stderr
    assert not (tmp_path / "to").exists()


def test_the_page_of_licences_names_what_is_unknown_and_where_to_read(bill, folder):
    page = (folder / "licences.txt").read_text()
    assert page == report(bill)
    assert "4 Debian packages, 5 Python distributions, and 2 parts that these declare" in page
    counts = dict(reversed(line.split(maxsplit=1)) for line in sections(page)["Licences by"])
    assert counts["MIT"] == "3"
    assert counts["GPL-2.0-or-later"] == counts["Zlib"] == counts["Odd-One"] == "1"
    assert counts["unknown, see below"] == "3"
    assert [" ".join(line.split()) for line in sections(page)["Unknown: 3"]] == [
        "dpkg 1.21.22 Debian no text either",
        "three 3.0 Debian see usr/share/doc/three/copyright (refers to LGPL-2.1)",
        "silent 3.0 PyPI no text either",
    ]
    textless = [line.split()[0] for line in sections(page)["Without licence"]]
    assert textless == ["dpkg", "carrier", "closed", "silent", "vague"]
    assert sections(page)["Shared libraries"] == ["carrier.libs/libdeep-1234.so.5  in carrier"]
    assert len(sections(page)["All parts"]) == 11


def sections(page):
    """Split a report into lines by the first two words of their section's title."""
    found, lines = {}, page.splitlines()
    for number, line in enumerate(lines):
        if line and set(line) == {"-"}:
            below = lines[number + 1 :]
            end = below.index("") if "" in below else len(below)
            found[" ".join(lines[number - 1].split()[:2])] = below[:end]
    return found


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ("", set()),
        ("MIT", {"MIT"}),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", {"MIT", "Apache-2.0", "Unicode-3.0"}),
        ("(IJG) AND (BSD-3-Clause)", {"IJG", "BSD-3-Clause"}),
        ("GPL-1+ or Artistic, and Expat, X11", {"GPL-1+", "Artistic", "Expat", "X11"}),
        ("GPL-3.0-only WITH Bison-exception-2.2", {"GPL-3.0-only WITH Bison-exception-2.2"}),
        ("GNU Lesser General Public License v3 (LGPLv3)",
         {"GNU Lesser General Public License v3 (LGPLv3)"}),
    ],
)  # fmt: skip
def test_licences_are_counted_one_by_one(declared, names):
    assert single(declared) == names


def test_an_image_with_nothing_unknown_has_a_page_as_well():
    page = report({"metadata": {"component": {"name": "empty"}}, "components": []})
    assert "0 Debian packages, 0 Python distributions" in page
