"""The reference pages are those of the code, and the tables of other facts are complete."""

import ast
import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

import infra.composition.platform
import infra.composition.stack_outputs
import jobs.errors
import jobs.exit_status
import trainer.errors
from common import errors
from infra.leaves import LEAVES, SETTINGS
from infra.naming import Names
from tests import ROOT
from tools.references import facts
from tools.references.__main__ import written
from tools.references.badges import START, noted, untested
from tools.references.documented import groups
from tools.references.pages import switched_on
from tools.references.schemas import SCHEMAS
from trainer.config import TrainConfig

BEFORE = ROOT / "tests" / "trainer" / "written_before"


def test_the_pages_on_disk_are_those_that_the_code_writes():
    stale = [
        path.relative_to(ROOT).as_posix()
        for path, text in written().items()
        if not path.exists() or path.read_text() != text
    ]
    assert not stale, "run `make -C tools references`"


@pytest.mark.parametrize("cls", [SETTINGS, TrainConfig])
def test_every_option_is_explained(cls):
    silent = {one.key for group in groups(cls) for one in group.fields if not one.effect}
    # Their names, and the sentence about their group, say all.
    assert silent <= {"network.existing.virtual_network"}


def test_every_setting_of_the_program_has_a_row_and_only_settings_have_a_note_on_changes():
    keys = {one.key for group in groups(SETTINGS) for one in group.fields}
    for leaf in LEAVES:
        assert {group.split(".")[0] for group in leaf.groups} <= {key.split(".")[0] for key in keys}
    assert {"clusters.NAME.size", "network.existing.build_subnet", "encryption.key_uri"} <= keys
    assert facts.CHANGES.keys() <= keys | {group.key for group in groups(SETTINGS)}


def test_a_setting_says_its_values_bounds_and_default():
    found = {one.key: one for group in groups(SETTINGS) for one in group.fields}
    retention = found["monitoring.retention_days"]
    assert (retention.type, retention.bounds, retention.default) == (
        "whole number",
        "from 30 to 730",
        "30",
    )
    assert found["profile"].type == "`private`, `allowlisted`, `managed`"
    assert found["location"].default == ""


def statuses(module):
    classes = (one for one in vars(module).values() if isinstance(one, type))
    return {one.exit_code for one in classes if issubclass(one, errors.UserError)}


def test_the_table_of_exit_statuses_has_those_of_both_programs():
    of_trainer = statuses(trainer.errors) | {
        *(0, trainer.errors.TIME_LIMIT_STATUS, trainer.errors.WATCHDOG_EXIT_CODE),
        *(*trainer.errors.STOP_STATUSES, errors.ConfigError.exit_code, errors.PIPE_CLOSED),
    }
    assert of_trainer == {status for status, (trains, _) in facts.STATUSES.items() if trains}
    others = {one for one in vars(jobs.exit_status).values() if isinstance(one, int)}
    of_jobs = statuses(jobs.errors) | others
    of_jobs |= {0, errors.ConfigError.exit_code, errors.INTERRUPTED, errors.PIPE_CLOSED}
    assert of_jobs == {status for status, (_, manages) in facts.STATUSES.items() if manages}


def test_the_table_of_variables_has_those_that_the_code_names():
    listed = subprocess.run(
        ["git", "ls-files", "trainer/*.py", "jobs/*.py", "serving/*.py", "common/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = set()
    for path in listed.stdout.splitlines():
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= set(re.findall(r"\A((?:JOBS|TRAINER|SCORE)_[A-Z_]+[A-Z])\Z", node.value))
    assert named == set(facts.VARIABLES)


def test_the_table_of_outputs_has_those_that_the_program_exports():
    exported = set()
    for module in (infra.composition.platform, infra.composition.stack_outputs):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        for function in ast.walk(tree):
            if getattr(function, "name", "") in ("declare", "shared_network"):
                for node in ast.walk(function):
                    if isinstance(node, ast.Dict):
                        exported |= {
                            key.value for key in node.keys if isinstance(key, ast.Constant)
                        }
    assert exported == set(facts.OUTPUTS)


def test_the_rules_of_a_leafs_subnets_are_on_the_page_of_the_network():
    page = (ROOT / "docs" / "reference" / "network.md").read_text()
    for leaf in LEAVES:
        for subnet in leaf.subnets(switched_on()):
            assert f"## Subnet `{subnet.role}`" in page


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def errors_of(name, data):
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(data)]


@pytest.mark.parametrize("run", ["run", "parquet_run", "head_run"])
def test_files_of_earlier_runs_follow_the_schemas(run):
    folder = BEFORE / run
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert len(lines) > 5
    assert [errors_of("metrics", json.loads(line)) for line in lines] == [[]] * len(lines)
    assert errors_of("result", json.loads((folder / "result.json").read_text())) == []
    for data in ("data", "parquet"):
        assert (
            errors_of("manifest", json.loads((BEFORE / data / "manifest.json").read_text())) == []
        )


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("result", {"steps": -1}),
        ("result", {"ranks": "2"}),
        ("metrics", {"event": "lunch"}),
        ("metrics", {"event": "checkpoint"}),
    ],
)
def test_a_schema_refuses_what_a_file_must_not_have(name, change):
    file = {"result": "result.json", "metrics": "metrics.jsonl"}[name]
    text = (BEFORE / "run" / file).read_text()
    data = json.loads(text.partition("\n{")[0] if name == "metrics" else text)
    assert errors_of(name, data) == []
    assert errors_of(name, {**data, **change}) != []


@pytest.mark.parametrize("page", untested((ROOT / "mkdocs.yml").read_text()))
def test_a_page_says_once_that_it_was_not_tested_on_azure_and_leads_to_what_was(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    note = text.partition(f"\n{START}")[2].partition("\n\n")[0]
    assert "(tested.md)" in note
    assert text.count(START) == 1


def test_a_page_gets_the_note_below_its_title_and_only_once():
    page = noted("# Title\n\nText.\n")
    assert page.startswith(f"# Title\n\n{START}")
    assert page.endswith(".\n\nText.\n")
    assert noted(page) == page


def test_the_picture_of_access_shows_names_and_ports_of_the_program():
    picture = (ROOT / "docs" / "images" / "access.svg").read_text()
    names = Names("hvd", "dev", "westeurope", "", subscription="")
    chosen = switched_on()
    subnets = {one.role: one for leaf in LEAVES for one in leaf.subnets(chosen)}
    assert f"{names.base}-bastion-ip" in {name(names) for leaf in LEAVES for name in leaf.names}
    for shown in (
        *(
            f"{names.base}-bastion-ip",
            f"{names.base}-jump",
            f"{names.base}-vnet",
            names.nat_gateway,
        ),
        *(subnets["bastion"].name, names.subnet("jump"), names.subnet("training")),
    ):
        assert f">{shown}<" in picture or f" {shown}<" in picture, shown
