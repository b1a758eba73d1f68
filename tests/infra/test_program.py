"""The Pulumi program: files and calls on the way from the settings to the resources."""

import ast
import inspect
import re
import sys
import tomllib
from collections import Counter

import pytest

from infra.render.render import run
from tests import ROOT
from tests.infra.support.stacks import file_of

pytestmark = pytest.mark.slow
INFRA = ROOT / "infra"


@pytest.fixture(scope="module")
def calls():
    """How often each function of `infra/` is called when a stack is declared, by file and name."""
    counted = Counter()

    def count(frame, event, _argument):
        file = frame.f_code.co_filename
        called = event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if called and file.startswith(f"{INFRA}/"):
            counted[file.removeprefix(f"{INFRA}/"), frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        run("dev", {}, file_of("dev"))
    finally:
        sys.setprofile(None)
    return counted


def test_the_files_of_a_deployment_are_those_that_the_program_lists(calls):
    program = (INFRA / "__main__.py").read_text(encoding="utf-8").split('"""')[1]
    listed = set(re.findall(r"[\w/]+\.py", program)) | {"__main__.py"}
    services = ("components/", "catalog/", "extras/", "render/")
    assert {file for file, _ in calls if not file.startswith(services)} == listed
    assert len(listed) <= 16


def test_the_settings_are_opened_and_validated_once(calls):
    assert calls["stack_config.py", "from_stack"] == 1
    assert calls["validation.py", "load"] == 1


def test_the_types_of_every_provider_that_is_declared_are_checked():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    sdk = "pulumi_azure_native"
    checked = {
        name.removeprefix(f"{sdk}.").removesuffix(".*")
        for override in settings["overrides"]
        if override.get("follow_imports") == "silent"
        for name in override["module"]
    }
    imported = {
        alias.name
        for path in (ROOT / "infra").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == sdk
        for alias in node.names
    }
    assert checked - {sdk, "provider", "_utilities"} == imported - {"Provider"}
