"""The stacks as they are in a review: a snapshot that no longer fits says what changed."""

import dataclasses
import difflib
import json

import pytest

from infra.render import snapshot as program
from infra.render.snapshot import FOLDER, STACKS, snapshot
from tests.infra.support.samples import STACK, changed
from tests.infra.support.stacks import rendered


def told(stack):
    return json.loads(snapshot(stack))


def test_the_help_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(program, "FOLDER", tmp_path / "snapshots")
    for argument, status in (("--help", 0), ("dev", 2)):
        with pytest.raises(SystemExit) as end:
            program.main([argument])
        assert end.value.code == status
    assert "usage: python -m infra.render.snapshot" in capsys.readouterr().out
    assert not (tmp_path / "snapshots").exists()


@pytest.mark.parametrize("stack", STACKS)
def test_the_snapshot_of_a_stack_is_what_it_declares(stack):
    recorded = (FOLDER / f"{stack}.json").read_text(encoding="utf-8")
    declared = snapshot(rendered(stack))
    changes = "\n".join(
        difflib.unified_diff(
            recorded.splitlines(), declared.splitlines(), "recorded", "declared", lineterm="", n=1
        )
    )
    assert not changes, (
        f"{stack} declares something else than its snapshot says. If that is meant, run "
        f"`.venv/bin/python -m infra.render.snapshot` and commit the change:\n{changes}"
    )


def test_a_changed_input_is_a_changed_line():
    before = snapshot(STACK).splitlines()
    after = snapshot(changed("workspace", "hbiWorkspace", setting=False)).splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ('    "hbiWorkspace": true,', '    "hbiWorkspace": false,')
    ]


def test_the_order_of_declaration_does_not_matter():
    assert snapshot(STACK[::-1]) == snapshot(STACK)


def test_what_every_resource_repeats_is_told_once():
    text = snapshot(STACK)
    assert text.count('"resourceGroupName"') == 1
    assert text.count('"cost-center"') == 1
    assert "/subscriptions/s/resourceGroups" not in text.replace(STACK[1].id, "")


def test_other_tags_than_the_groups_are_told():
    text = told(changed("vault", "tags", {"owner": "somebody"}))
    assert text["keyvault:Vault vault"]["tags"] == {"owner": "somebody"}


def test_a_role_is_told_by_its_name_and_an_identity_by_the_dependency():
    grant = told(STACK)["authorization:RoleAssignment training-data-read"]
    assert grant["after"] == ["managedidentity:UserAssignedIdentity identity-training"]
    assert grant["roleDefinitionId"] == "ROLE Storage Blob Data Reader"
    assert "principalId" not in grant
    group = told(STACK)["authorization:RoleAssignment publishers-data-write"]
    assert group["principalId"].startswith("99999999-")


def test_a_network_rule_is_a_line():
    assert told(STACK)["network:NetworkSecurityGroup nsg"]["securityRules"] == [
        "Inbound 100 Allow * VirtualNetwork -> * * (allow-inbound)",
        "Inbound 4096 Deny * * -> * * (deny-inbound)",
        "Outbound 4096 Deny * * -> * * (deny-outbound)",
    ]


def test_options_are_shown_and_indirect_dependencies_are_not():
    by_name = {one.name: one for one in STACK if one.id}
    vault, registry, budget = (by_name[name] for name in ("vault", "registry", "budget"))
    needs = {
        vault.key: {"dependsOn": [registry.key]},
        budget.key: {"dependsOn": [vault.key, registry.key], "protect": True},
    }
    stack = [
        dataclasses.replace(one, options=needs[one.key]) if one.key in needs else one
        for one in STACK
    ]
    text = told(stack)["consumption:Budget budget"]
    assert text["after"] == ["keyvault:Vault vault"]
    assert text["options"] == {"protect": True}
