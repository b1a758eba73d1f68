"""Stacks' files, and the configuration that Pulumi hands to the program."""

import dataclasses
import json
from contextvars import ContextVar
from types import MappingProxyType

import pulumi
import pytest
import yaml

from infra import stack_config
from infra.errors import SettingsError
from infra.leaves import SETTINGS
from infra.prerequisites import read_file
from infra.validation import load
from tests import ROOT
from tests.infra.support.configurations import STACKS, configured, stack_file


def project():
    return yaml.safe_load((ROOT / "Pulumi.yaml").read_text())


def test_the_project_declares_every_key_with_its_type_and_default():
    declared = project()["config"]
    defaults = load(configured())
    given = [field.name for field in dataclasses.fields(SETTINGS) if field.name != "stack"]
    assert sorted(declared) == sorted(given)
    required = {name for name, schema in declared.items() if "default" not in schema}
    assert required == {"prefix", "location", "budget", "tags"}
    types = {str: "string", bool: "boolean", tuple: "array"}
    for name, schema in declared.items():
        value = getattr(defaults, name)
        assert schema["type"] == types.get(type(value), "object"), name
        assert schema["description"]
        if "default" in schema and schema["type"] != "object":
            assert schema["default"] == (list(value) if type(value) is tuple else value), name
        elif "default" in schema:
            assert schema["default"] == {}, name


def test_the_programs_folder_hides_no_standard_module():
    main = project()["main"]
    assert main == "infra/__main__.py"
    assert (ROOT / main).parent.joinpath("settings.py").exists()


@pytest.mark.parametrize("stack", [*STACKS, "dev-prep"])
def test_stack_files_have_no_secret_and_no_key_of_another_project(stack):
    text = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())
    # Pulumi notes how it encrypts the secrets of a stack that is deployed.
    assert set(text) - {"secretsprovider", "encryptedkey", "encryptionsalt"} == {"config"}
    assert all(key.startswith(f"{project()['name']}:") for key in text["config"])
    assert "secure:" not in json.dumps(text)


def test_the_engines_texts_become_data_and_other_namespaces_are_left_out():
    config = {
        "p:prefix": "42",
        "p:protect": "true",
        "p:tags": '{"owner": "team"}',
        "p:clusters": "no json {",
        "azure-native:location": "northeurope",
    }
    assert stack_config.decode(config, "p") == {
        "prefix": "42",
        "protect": True,
        "tags": {"owner": "team"},
        "clusters": "no json {",
    }


@pytest.mark.parametrize("stack", STACKS)
def test_settings_come_from_the_stack_that_pulumi_runs(stack, monkeypatch):
    name = project()["name"]
    values = {f"{name}:{key}": value for key, value in stack_file(stack).items() if key != "stack"}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(texts))
    monkeypatch.setattr(pulumi, "get_project", lambda: name)
    monkeypatch.setattr(pulumi, "get_stack", lambda: stack)
    # Leftovers of a stack that was rendered in this process.
    nothing = ContextVar("config", default=MappingProxyType({}))
    monkeypatch.setattr(stack_config, "CONFIG", nothing)
    assert stack_config.from_stack() == load(stack_file(stack))


def in_file(folder, old, new):
    """Return a stack's file with one change."""
    file = folder / "Pulumi.team.yaml"
    text = (ROOT / "Pulumi.dev.yaml").read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    low_priority_cores: 100\n", "", "subscription: None is not a group of keys"),
        (
            "    owner: ml-platform\n    cost-center: research\n",
            "",
            "tags: None is not a group of names, each with a text; remove the key, or give it a"
            " value",
        ),
        ("cost-center: research", "cost-center: 4711", "4711 is not a text; write it in quotes"),
        (
            'start: "2026-12-01"',
            "start: 2026-12-01",
            "budget.start: '2026-12-01 00:00:00 +0000 UTC' must be the first day of a month, such"
            ' as "2026-12-01", in quotes',
        ),
        ("    amount: 500", "\tamount: 500", "Pulumi.team.yaml is not YAML: while scanning"),
        ("config:", "settings:", "location: is missing"),
        ("config:", "- config:", "Pulumi.team.yaml: write `config:`, and below it a line"),
    ],
)
def test_a_fault_of_a_stacks_file_is_named(tmp_path, old, new, problem):
    file = in_file(tmp_path, old, new)
    with pytest.raises(SettingsError) as caught:
        read_file("team", file, stack_config.PLACEHOLDERS)
    assert problem in str(caught.value)


def test_placeholders_replace_no_fault():
    assert stack_config.with_subscription({"subscription": None}) == {"subscription": None}


@pytest.mark.parametrize("text", ["", "config:\n"])
def test_an_empty_file_has_no_keys(tmp_path, text):
    (tmp_path / "Pulumi.team.yaml").write_text(text)
    assert stack_config.configuration("team", tmp_path / "Pulumi.team.yaml")[1] == {}
