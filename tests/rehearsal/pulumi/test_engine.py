"""Which engine of Pulumi is used, and that all that speaks with it is of the same versions."""

import ast
import re
import tempfile
import tomllib
from pathlib import Path

import pytest

from rehearsal.pulumi import deployment
from rehearsal.pulumi.provider import server
from tests import ROOT


@pytest.mark.parametrize(
    ("version", "enough"),
    [
        ("v3.259.0\n", True),
        ("v3.300.1-dev.0", True),
        ("v3.258.9", False),
        ("v4.0.0", False),
        ("", False),
    ],
)
def test_engines_from_the_pinned_minor_on_are_taken(version, enough):
    assert deployment.is_new_enough(version) is enough


def test_an_engine_is_asked_for_its_version_without_touching_a_home(tmp_path, monkeypatch):
    engine = tmp_path / "pulumi"
    engine.write_text(f'#!/bin/sh\necho "$PULUMI_HOME" > {tmp_path}/home\necho v3.259.0\n')
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "theirs"))
    assert deployment.find_engine() == (engine, "v3.259.0")
    home = Path((tmp_path / "home").read_text().strip())
    assert home.is_relative_to(tempfile.gettempdir())
    assert home != tmp_path / "theirs"
    assert not home.exists()


def test_settings_of_a_deployed_stack_lose_its_key():
    before = "config:\n  ml-azure-horovod:prefix: hvd\n"
    key = "secretsprovider: azurekeyvault://v.vault.azure.net/keys/pulumi\nencryptedkey: abc=\n"
    assert deployment.without_secrets(key + before + "encryptionsalt: v1:abc\n") == before


def test_engine_sdk_and_provider_are_of_the_same_versions():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    pinned = dict(
        entry.split("==") for entry in groups["infra"] if isinstance(entry, str) and "==" in entry
    )
    engine = re.search(
        r"^\s*github.com/pulumi/pulumi/pkg/v3 v(\S+)",
        (ROOT / "rehearsal" / "pulumi" / "go.mod").read_text(),
        re.MULTILINE,
    )
    assert engine[1] == pinned["pulumi"]
    assert pinned["pulumi-azure-native"] == server.VERSION


def test_only_what_speaks_the_engines_protocol_imports_pulumis_package():
    """It brings that protocol, and azure-native's argument classes."""
    speakers = {"language_host.py", "policy_packs.py", "schema.py", "server.py"}
    for path in sorted((ROOT / "rehearsal").rglob("*.py")):
        packages = imported_packages(path)
        assert path.name in speakers or "pulumi" not in packages, path


def imported_packages(path):
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return {name.split(".")[0] for name in names}
