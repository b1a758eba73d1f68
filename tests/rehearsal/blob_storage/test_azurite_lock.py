"""The blob server is installed from a lock."""

import json

from tests import ROOT


def test_the_blob_server_is_locked_without_the_name_of_a_registry():
    folder = ROOT / "rehearsal" / "azurite"
    lock = json.loads((folder / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all(package["integrity"] for package in packages.values())
    assert not any("resolved" in package for package in packages.values())
    dependencies = json.loads((folder / "package.json").read_text())["dependencies"]
    assert dependencies == {"azurite": packages["node_modules/azurite"]["version"]}
