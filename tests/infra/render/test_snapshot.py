"""The stacks as they are in a review: a snapshot that no longer fits says what changed."""

import dataclasses
import difflib
import json

import pytest

from infra.render import snapshot as program
from infra.render.snapshot import FOLDER, STACKS, snapshot
from tests.infra.support.production import changed
from tests.infra.support.stacks import only, rendered


def test_the_help_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(program, "FOLDER", tmp_path / "snapshots")
    for argument, status in (("--help", 0), ("dev", 2)):
        with pytest.raises(SystemExit) as end:
            program.main([argument])
        assert end.value.code == status
    assert "usage: python -m infra.render.snapshot" in capsys.readouterr().out
    assert not (tmp_path / "snapshots").exists()


@pytest.mark.parametrize("name", STACKS)
def test_the_snapshot_of_a_stack_is_what_it_declares(name):
    recorded = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    declared = program.text(name)
    changes = "\n".join(
        difflib.unified_diff(
            recorded.splitlines(), declared.splitlines(), "recorded", "declared", lineterm="", n=1
        )
    )
    assert not changes, (
        f"{name} declares something else than its snapshot says. If that is meant, run "
        f"`.venv/bin/python -m infra.render.snapshot` and commit the change:\n{changes}"
    )


def test_a_changed_input_is_a_changed_line_in_whatever_order_things_are_declared():
    stack = rendered("dev")
    before = snapshot(stack).splitlines()
    after = snapshot(changed("workspace", "hbiWorkspace", False, stack)[::-1]).splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ('    "hbiWorkspace": true,', '    "hbiWorkspace": false,')
    ]


def test_what_every_resource_repeats_is_told_once():
    text = snapshot(rendered("dev"))
    assert text.count('"resourceGroupName"') == 1
    assert text.count('"cost-center"') == 1
    other = json.loads(snapshot(changed("vault", "tags", {"owner": "x"}, rendered("dev"))))
    assert other["keyvault/v20260201:Vault vault"]["tags"] == {"owner": "x"}


def test_a_role_is_told_by_its_name_and_an_identity_by_the_dependency():
    publishers = "99999999-0000-0000-0000-000000000000"
    told = json.loads(snapshot(rendered("dev", people__publishers=publishers)))
    grant = told["authorization:RoleAssignment training-registry-acrpull"]
    assert "managedidentity:UserAssignedIdentity identity-training" in grant["after"]
    assert grant["roleDefinitionId"] == "ROLE AcrPull"
    assert "principalId" not in grant
    [group] = [told[one] for one in told if "RoleAssignment publishers" in one]
    assert group["principalId"] == publishers


def test_options_are_shown_and_indirect_dependencies_are_not():
    vault = only(rendered("dev"), "keyvault:Vault")
    registry = only(rendered("dev"), "containerregistry:Registry")
    needs = {
        vault.key: {"dependsOn": [registry.key]},
        "azure-native:consumption:Budget::budget": {
            "dependsOn": [vault.key, registry.key],
            "protect": True,
        },
    }
    stack = [
        dataclasses.replace(one, options=needs[one.key]) if one.key in needs else one
        for one in rendered("dev")
    ]
    text = json.loads(snapshot(stack))["consumption:Budget budget"]
    assert text["after"] == ["keyvault/v20260201:Vault vault"]
    assert text["options"] == {"protect": True}
