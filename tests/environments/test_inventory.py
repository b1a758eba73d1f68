"""The bill of materials is read from an image's files, without running any of them."""

import json
import subprocess

import pytest

from environments import inventory
from environments.__main__ import main
from environments.build import SYFT

pytestmark = pytest.mark.slow

SITE = "opt/trainer/lib/python3.11/site-packages"
PACKAGE = "Package: {}\nStatus: install ok installed\nArchitecture: all\nVersion: {}\n\n"
FORMAT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
FILES = {
    "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status": PACKAGE.format("libone1", "1.0-2+b1") + PACKAGE.format("two", "2:2.0"),
    "usr/share/doc/libone1/copyright": f"{FORMAT}\nFiles: *\nCopyright: One\nLicense: GPL-2+\n",
    "usr/share/doc/two/copyright": f"{FORMAT}\nFiles: *\nCopyright: One\nLicense: Odd-One\n",
    f"{SITE}/exact-1.0.dist-info/METADATA": "License-Expression: MIT OR Apache-2.0",
    f"{SITE}/silent-3.0.dist-info/METADATA": "License: UNKNOWN",
    f"{SITE}/exact/_vendor/inner-0.1.dist-info/METADATA": "License: MIT License",
    # Mentioned, but not installed.
    f"{SITE}/exact/requirements.txt": "absent==1.0\n",
}


@pytest.fixture
def root(tmp_path):
    """Root folder of a small image."""
    if not SYFT.exists():
        pytest.skip(f"{SYFT} is not there; make .tools/sbom/.ready installs it")
    root = tmp_path / "root"
    for name, text in FILES.items():
        file, head = root / name, ""
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.name == "METADATA":
            project, version = file.parent.name.removesuffix(".dist-info").split("-")
            head = f"Metadata-Version: 2.4\nName: {project}\nVersion: {version}\n"
        file.write_text(f"{head}{text}\n")
    return root


def test_packages_and_their_licences_are_listed_the_same_each_time(root, tmp_path, monkeypatch):
    command = ["inventory", str(root), "--to"]
    assert main([*command, str(tmp_path / "image"), "--name", "trainer-small"]) == 0
    bill = json.loads((tmp_path / "image" / "sbom.json").read_text())
    assert (bill["specVersion"], bill["metadata"]["component"]["name"]) == ("1.6", "trainer-small")
    addresses = {one["purl"].partition("?")[0] for one in bill["components"] if "purl" in one}
    assert addresses == {
        *("pkg:deb/debian/libone1@1.0-2%2Bb1", "pkg:deb/debian/two@2:2.0"),
        *("pkg:pypi/exact@1.0", "pkg:pypi/silent@3.0", "pkg:pypi/inner@0.1"),
    }
    page = (tmp_path / "image" / "licences.txt").read_text()
    assert "Licences in trainer-small: 5 packages" in page
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert lines[3:9] == [
        *("1 GPL-2.0-or-later", "1 MIT License", "1 MIT OR Apache-2.0", "1 Odd-One", "1 unknown"),
        "",
    ]
    assert lines[9:] == [
        *("exact 1.0 MIT OR Apache-2.0", "inner 0.1 MIT License"),
        *("libone1 1.0-2+b1 GPL-2.0-or-later", "silent 3.0 unknown", "two 2:2.0 Odd-One"),
    ]
    again = tmp_path / "again"
    inventory.write(SYFT, root, again, "trainer-small")
    for name in (inventory.SBOM, inventory.LICENCES):
        assert (again / name).read_bytes() == (tmp_path / "image" / name).read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    inventory.write(SYFT, root, again, "trainer-small")
    dated = json.loads((again / "sbom.json").read_text())
    assert dated["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"
    assert dated["serialNumber"] != bill["serialNumber"]


def test_a_folder_that_is_no_image_is_refused_by_name(tmp_path, capsys):
    assert main(["inventory", str(tmp_path), "--to", str(tmp_path / "to")]) == 1
    assert f"error: {tmp_path}: has no var/lib/dpkg/status" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_a_failure_of_the_reader_shows_its_words(root, tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "no such cataloger\n")
    monkeypatch.setattr(inventory.subprocess, "run", lambda *_args, **_options: failed)
    with pytest.raises(inventory.UserError, match="could not read it: no such cataloger"):
        inventory.write(SYFT, root, tmp_path / "to", "image")
