"""Resources that an update replaces or may not replace, and those that a teardown deletes with
their parent."""

import json
import re

import pytest

from infra.policies.pack import check
from infra.render.mocks import guid
from infra.resources import COMPUTE, WORKSPACE, of_kind
from tests.infra.support.stacks import key, rendered, settings_of
from tests.infra.support.variants import KEYS, OPTIONS


def test_computes_and_datastores_go_with_the_workspace():
    resources = rendered("prod")
    inside = [
        *of_kind(resources, COMPUTE),
        *of_kind(resources, "machinelearningservices:Datastore"),
    ]
    assert len(inside) == 7
    for one in inside:
        assert one.options["deletedWith"] == key(WORKSPACE, "workspace")


def test_what_azure_would_silently_keep_makes_a_cluster_anew():
    for cluster in of_kind(rendered("prod"), COMPUTE):
        assert cluster.options["deleteBeforeReplace"]
        assert {
            "properties.properties.vmSize",
            "properties.properties.vmPriority",
            "properties.properties.subnet",
            "properties.properties.enableNodePublicIp",
        } <= set(cluster.options["replaceOnChanges"])


def test_the_paths_that_replace_a_cluster_are_inputs_that_it_has():
    for cluster in of_kind(rendered("prod"), COMPUTE):
        for path in cluster.options["replaceOnChanges"]:
            found = cluster.inputs
            for part in path.split("."):
                assert part in found, path
                found = found[part]


PROTECTED = {
    "storage:StorageAccount",
    "storage:BlobContainer",
    "keyvault:Vault",
    "containerregistry:Registry",
    WORKSPACE,
    "operationalinsights:Workspace",
}


def test_production_protects_what_holds_data_or_cannot_be_made_again():
    protected = {one.kind for one in rendered("prod") if one.options.get("protect")}
    assert protected == PROTECTED


def test_production_protects_all_of_them():
    for kind in PROTECTED:
        for one in of_kind(rendered("prod"), kind):
            assert one.options.get("protect"), one.key


URNS = {
    "platform:index:EncryptionKey$azure-native:keyvault/v20260201:Key::encryption",
    "platform:index:Monitoring$azure-native:operationalinsights:Workspace::logs",
    "platform:index:Registry$azure-native:containerregistry:Registry::registry",
    "platform:index:Storage$azure-native:storage:BlobContainer::data-prepared",
    "platform:index:Storage$azure-native:storage:BlobContainer::data-raw",
    "platform:index:Storage$azure-native:storage:BlobContainer::default-results",
    "platform:index:Storage$azure-native:storage:StorageAccount::storage-data",
    "platform:index:Storage$azure-native:storage:StorageAccount::storage-default",
    "platform:index:Vault$azure-native:keyvault/v20260201:Vault::vault",
    "platform:index:Workspace$azure-native:machinelearningservices:Workspace::workspace",
}
"""Types and names by which deployed stacks know the resources that hold data."""


def test_what_holds_data_keeps_the_type_and_name_that_deployed_stacks_know():
    declared = {
        f"{one.options['parent'].partition('::')[0]}${one.key}"
        for one in rendered("prod", **KEYS)
        if one.options.get("protect")
    }
    assert declared == URNS, "Pulumi would replace these; give the new one an alias of the old one"


def test_development_can_be_taken_down():
    assert not [one.key for one in rendered("dev") if one.options.get("protect")]


SEEDED = {
    "own": {"monitoring.private_link": True, "monitoring.ended_runs": True, "serving": True},
    "theirs": OPTIONS["their network, links declared"] | OPTIONS["people"],
}


@pytest.mark.parametrize("option", SEEDED)
def test_another_seed_renames_nothing_that_exists(option):
    before = {old.key: old for old in rendered("dev", **SEEDED[option])}
    after = {new.key: new for new in rendered("dev", **SEEDED[option] | {"name_seed": "2"})}
    renamed = {
        str(new.inputs[path]): str(before[at].inputs[path])
        for at, new in after.items()
        for path in new.options.get("ignoreChanges", ())
        if path in new.inputs and new.inputs[path] != before[at].inputs[path]
    }
    assert len(renamed) > 10
    # All else refers to the names that resources have.
    workspace = key(WORKSPACE, "workspace")
    renamed[guid(after[workspace].id)] = guid(before[workspace].id)
    names = re.compile("|".join(map(re.escape, renamed)))
    for at, new in after.items():
        inputs = names.sub(lambda name: renamed[name[0]], json.dumps(new.inputs))
        assert json.loads(inputs) == before[at].inputs


@pytest.mark.parametrize("option", SEEDED)
def test_a_stack_that_was_deployed_with_another_seed_keeps_the_rules(option):
    overrides = SEEDED[option]
    seeded = settings_of("dev", **overrides | {"name_seed": "2"})
    assert [fault.message for fault in check(rendered("dev", **overrides), seeded)] == []
