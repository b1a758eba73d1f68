"""The whole program, run without Azure: every way to switch it, and the order that it asks for."""

import itertools
import json
import re
import subprocess
import sys

import pulumi
import pytest

from infra import outputs
from infra.offline.render import run
from infra.outputs import from_dict, to_dict
from infra.policies.pack import check
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    STORAGE,
    WORKSPACE,
    Resource,
    of_kind,
    read,
    requirements,
    to_json,
)
from infra.stack_config import PLACEHOLDERS
from tests import ROOT
from tests.infra.support.stacks import only, ran, rendered, settings_of
from tests.infra.support.variants import (
    KEYS,
    OPTIONS,
    SERVICES,
    SIZES,
)

ACCOUNT_ID = re.compile(r"/subscriptions/.*/Microsoft.Storage/storageAccounts/[^/]+")
ENDPOINT = "network:PrivateEndpoint"
ZONE_GROUP = "network:PrivateDnsZoneGroup"


def key(kind, name):
    return f"azure-native:{kind}::{name}"


def of_azure(resources):
    return [one for one in resources if one.type.startswith("azure-native:")]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_declared_within_the_rules(option):
    overrides = OPTIONS[option]
    assert check(rendered("dev", **overrides), settings_of("dev", **overrides)) == []


def test_the_stack_that_prepares_data_is_declared_once_it_has_an_account_for_them():
    with pytest.raises(pulumi.RunError, match=r"storage\.existing_data: '' must be a resource id"):
        rendered("dev-prep")
    account = {"storage.existing_data": ran("dev").data_account}
    resources = rendered("dev-prep", **account)
    assert check(resources, settings_of("dev-prep", **account)) == []
    assert only(resources, STORAGE).name == "storage-default"


@pytest.mark.parametrize("size", SIZES)
def test_every_size_that_can_be_deployed_makes_a_cluster_of_it(size):
    cluster = only(rendered("dev", **SIZES[size]), COMPUTE, "cluster-gpu")
    assert cluster.inputs["properties"]["properties"]["vmSize"] == size


@pytest.mark.parametrize("option", OPTIONS)
def test_no_resource_waits_for_itself_or_has_the_name_of_another(option):
    resources = rendered("dev", **OPTIONS[option])
    assert set(requirements(resources)) == {one.key for one in resources}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_dependency_is_on_something_declared(option):
    resources = rendered("dev", **OPTIONS[option])
    known = {one.key for one in resources}
    for one in resources:
        assert set(one.options.get("dependsOn", ())) <= known


@pytest.mark.parametrize("kind", [COMPUTE, "machinelearningservices:Datastore"])
@pytest.mark.parametrize("option", ["as it is", "dedicated twin", "everything theirs"])
def test_what_is_in_the_workspace_waits_until_the_workspace_answers(option, kind):
    resources = rendered("dev", **OPTIONS[option])
    needed = requirements(resources)
    assert of_kind(resources, kind)
    for one in of_kind(resources, kind):
        assert {
            key(WORKSPACE, "workspace"),
            key(ENDPOINT, "workspace"),
            key(ZONE_GROUP, "workspace"),
            key(ASSIGNMENT, "workspace-workspace-contributor"),
        } <= needed[one.key]


@pytest.mark.parametrize("option", ["as it is", "customer-managed keys", "everything theirs"])
def test_the_workspace_waits_for_the_endpoints_of_what_it_is_made_of(option):
    resources = rendered("dev", **OPTIONS[option])
    before = requirements(resources)[key(WORKSPACE, "workspace")]
    for service in ("vault", "registry", "default-blob", "default-file", "data-blob"):
        assert key(ENDPOINT, service) in before
        assert key(ZONE_GROUP, service) in before


def test_the_workspace_waits_for_the_roles_of_its_identity():
    resources = rendered("dev")
    before = requirements(resources)[key(WORKSPACE, "workspace")]
    own = {one.key for one in of_kind(resources, ASSIGNMENT) if one.name.startswith("workspace-")}
    assert own - before == {key(ASSIGNMENT, "workspace-workspace-contributor")}
    assert len(own) > 8


def account_operations(resources):
    """Resources by the storage account that their creation changes, which Azure allows one by one.

    A workspace puts containers and a file share into its default account.
    """
    operations = {}
    for one in resources:
        changed = [one.id, one.inputs.get("resourceUri"), one.inputs.get("storageAccount")]
        connections = one.inputs.get("privateLinkServiceConnections", ())
        changed += [connection["privateLinkServiceId"] for connection in connections]
        for target in filter(None, changed):
            account = ACCOUNT_ID.match(target)
            if account and one.kind != ASSIGNMENT:
                operations.setdefault(account[0].lower(), set()).add(one.key)
    return operations


def test_the_operations_on_a_storage_account_are_known():
    counts = [len(keys) for keys in account_operations(rendered("dev")).values()]
    assert sorted(counts) == [6, 10]


@pytest.mark.parametrize("option", OPTIONS)
def test_no_two_operations_on_a_storage_account_run_at_once(option):
    resources = rendered("dev", **OPTIONS[option])
    needed = requirements(resources)
    operations = account_operations(resources)
    assert operations
    for keys in operations.values():
        for one, other in itertools.combinations(sorted(keys), 2):
            assert one in needed[other] or other in needed[one], f"{one} and {other} are unordered"


@pytest.mark.parametrize(
    ("cluster", "identity"),
    [("gpu", "training"), ("preparation", "preparation"), ("build", "build")],
)
def test_a_cluster_waits_for_the_roles_of_its_jobs(cluster, identity):
    resources = rendered("dev")
    before = requirements(resources)[key(COMPUTE, f"cluster-{cluster}")]
    roles = {
        one.key for one in of_kind(resources, ASSIGNMENT) if one.name.startswith(f"{identity}-")
    }
    assert roles
    assert roles <= before


def test_a_zone_group_waits_for_the_links_of_its_zones():
    resources = rendered("dev")
    before = requirements(resources)[key(ZONE_GROUP, "workspace")]
    for zone in ("privatelink.api.azureml.ms", "privatelink.notebooks.azure.net"):
        assert key("privatedns:VirtualNetworkLink", f"link-{zone}") in before


def test_every_endpoint_has_one_zone_group():
    resources = rendered("dev", **OPTIONS["everything on"])
    grouped = [one.inputs["privateEndpointName"] for one in of_kind(resources, ZONE_GROUP)]
    assert sorted(grouped) == sorted(
        one.inputs["privateEndpointName"] for one in of_kind(resources, ENDPOINT)
    )


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
    protected = {one.type for one in rendered("prod") if one.options.get("protect")}
    assert protected == {f"azure-native:{kind}" for kind in PROTECTED}


def test_production_protects_all_of_them():
    for kind in PROTECTED:
        for one in of_kind(rendered("prod"), kind):
            assert one.options.get("protect"), one.key


URNS = {
    "platform:index:EncryptionKey$azure-native:keyvault:Key::encryption",
    "platform:index:Monitoring$azure-native:operationalinsights:Workspace::logs",
    "platform:index:Registry$azure-native:containerregistry:Registry::registry",
    "platform:index:Storage$azure-native:storage:BlobContainer::data-prepared",
    "platform:index:Storage$azure-native:storage:BlobContainer::data-raw",
    "platform:index:Storage$azure-native:storage:BlobContainer::default-results",
    "platform:index:Storage$azure-native:storage:StorageAccount::storage-data",
    "platform:index:Storage$azure-native:storage:StorageAccount::storage-default",
    "platform:index:Vault$azure-native:keyvault:Vault::vault",
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


def test_a_customer_managed_key_is_protected_too():
    assert only(rendered("prod", **KEYS), "keyvault:Key").options.get("protect")


def test_development_can_be_taken_down():
    assert not [one.key for one in rendered("dev") if one.options.get("protect")]


def test_images_are_built_by_a_declared_cpu_cluster_that_is_not_taken_back():
    for stack in ("dev", "prod"):
        resources = rendered(stack)
        name = only(resources, WORKSPACE).inputs["imageBuildCompute"]
        [build] = [one for one in of_kind(resources, COMPUTE) if one.inputs["computeName"] == name]
        nodes = build.inputs["properties"]["properties"]
        assert build.name == "cluster-build"
        assert nodes["vmPriority"] == "Dedicated"
        assert nodes["subnet"]["id"].endswith("/subnets/snet-build")


def test_existing_services_get_only_roles_and_endpoints():
    resources = rendered("dev", **OPTIONS["their services"])
    workspace = only(resources, WORKSPACE).inputs
    assert workspace["storageAccount"] == SERVICES["storage.existing_default"]
    assert workspace["containerRegistry"] == SERVICES["registry.existing"]
    assert workspace["keyVault"] == SERVICES["vault.existing"]
    assert workspace["enableDataIsolation"] is True
    for id_ in SERVICES.values():
        touching = {one.type for one in resources if id_ in json.dumps(one.inputs)}
        assert touching <= {
            f"azure-native:{kind}"
            for kind in (
                ASSIGNMENT,
                ENDPOINT,
                WORKSPACE,
                "network:ServiceEndpointPolicy",
                "monitor:DiagnosticSetting",
                "monitor:ScheduledQueryRule",
            )
        }
    settings = of_kind(resources, "monitor:DiagnosticSetting")
    assert not [one for one in settings if one.inputs["resourceUri"] in SERVICES.values()]


def test_a_datastore_in_a_taken_account_names_its_group_and_subscription():
    resources = rendered("dev", **OPTIONS["their services"])
    store = only(resources, "machinelearningservices:Datastore", "datastore-training_data_raw")
    properties = store.inputs["properties"]
    assert properties["accountName"] == "theirdata"
    assert properties["resourceGroup"] == "theirs"
    assert properties["subscriptionId"].startswith("22222222-")


def test_a_customer_key_encrypts_workspace_registry_and_accounts():
    resources = rendered("dev", **KEYS)
    vault = only(resources, "keyvault:Vault")
    workspace = only(resources, WORKSPACE).inputs["encryption"]
    assert workspace["status"] == "Enabled"
    assert workspace["keyVaultProperties"]["keyVaultArmId"] == vault.id
    assert only(resources, "containerregistry:Registry").inputs["encryption"]["status"] == "enabled"
    for account in of_kind(resources, "storage:StorageAccount"):
        assert account.inputs["encryption"]["keySource"] == "Microsoft.Keyvault"
    before = requirements(resources)
    role = key(ASSIGNMENT, "encryption-vault-key-vault-crypto-service-encryption-user")
    for user in (*of_kind(resources, "storage:StorageAccount"), only(resources, WORKSPACE)):
        assert role in before[user.key]


def test_application_insights_is_declared_when_asked_for():
    assert not of_kind(rendered("dev"), "applicationinsights:Component")
    resources = rendered("dev", monitoring__application_insights=True)
    insights = only(resources, "applicationinsights:Component")
    assert insights.inputs["disableLocalAuth"] is True
    assert only(resources, WORKSPACE).inputs["applicationInsights"] == insights.id


@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_exported_reads_as_platform_outputs(option):
    exported = ran("dev", **OPTIONS[option]).platform
    read_back = from_dict(json.loads(json.dumps(exported)))
    assert to_dict(read_back) == exported


def test_what_is_exported_is_what_is_declared():
    stack = ran("prod")
    platform = from_dict(stack.platform)
    declared = {one.inputs["computeName"] for one in of_kind(stack.resources, COMPUTE)}
    clusters = platform.clusters
    assert set(clusters) == {"gpu", "gpu_dedicated", "preparation", "build"}
    assert {cluster.name for cluster in clusters.values()} == declared
    assert (clusters["gpu"].gpus_per_node, clusters["gpu"].infiniband) == (8, True)
    assert clusters["preparation"].gpus_per_node == 0
    accounts = {
        one.inputs["accountName"] for one in of_kind(stack.resources, "storage:StorageAccount")
    }
    stores = platform.datastores
    assert {stores.raw.account, stores.results.account} == accounts
    assert stores.raw.account == stores.prepared.account
    assert platform.workspace == only(stack.resources, WORKSPACE).inputs["workspaceName"]
    assert platform.access == outputs.Access("private", (), ())


def test_an_allowlisted_stack_says_whom_it_lets_in():
    platform = from_dict(ran("dev", **OPTIONS["allowlisted"]).platform)
    assert platform.access.allowed_addresses == tuple(OPTIONS["allowlisted"]["allowed_addresses"])
    assert platform.access.public == ("workspace", "default_storage", "data_storage")


def test_a_rendered_file_reads_back_and_two_runs_are_equal(tmp_path):
    first, second = (to_json(run("dev", {}).resources) for _ in range(2))
    assert first == second
    file = tmp_path / "dev.json"
    file.write_text(first, encoding="utf-8")
    assert to_json(read(file)) == first


def test_a_file_without_resources_is_refused_by_name(tmp_path):
    file = tmp_path / "no.json"
    file.write_text('[{"type": "x"}]', encoding="utf-8")
    with pytest.raises(ValueError, match=r"no\.json is not a rendered stack"):
        read(file)


def test_a_circle_of_dependencies_is_named():
    one = Resource("t:a:A", "one", {}, {"dependsOn": ["t:a:A::two"]}, "")
    two = Resource("t:a:A", "two", {}, {"dependsOn": ["t:a:A::one"]}, "")
    with pytest.raises(ValueError, match="circular dependency"):
        requirements([one, two])


def test_two_resources_of_one_name_are_refused():
    one = Resource("t:a:A", "one", {}, {}, "")
    with pytest.raises(ValueError, match="declared twice"):
        requirements([one, one])


def render(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "infra.offline.render", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_writes_the_stack_with_its_changes(tmp_path):
    file = tmp_path / "dev.json"
    done = render("dev", "--set", "network.jump_subnet=true", "--output", str(file))
    assert done.returncode == 0, done.stderr
    subnets = only(read(file), "network:VirtualNetwork").inputs["subnets"]
    assert "snet-jump" in [subnet["name"] for subnet in subnets]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dev", "--set", "profile=open"], "profile: 'open' is not one of private, allowlisted"),
        (["dev", "--set", "profile"], "write KEY=VALUE"),
        (["test"], "unknown stack 'test'; choose one of dev, dev-prep, prod"),
    ],
)
def test_a_mistake_ends_the_command_with_a_message(arguments, message, tmp_path):
    done = render(*arguments, "--output", str(tmp_path / "x.json"))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_all_resources_are_of_the_subscription_that_the_stack_is_pinned_to():
    pinned = "22222222-2222-4222-8222-222222222222"
    resources = rendered("dev", subscription__id=pinned)
    azure = [one for one in resources if one.type.startswith("azure-native:")]
    assert all(one.id.startswith(f"/subscriptions/{pinned}/") for one in azure)
    other = only(rendered("dev"), "keyvault:Vault")
    assert only(resources, "keyvault:Vault").inputs["vaultName"] != other.inputs["vaultName"]


def test_with_an_existing_group_nothing_is_declared_outside_it():
    group = f"/subscriptions/{PLACEHOLDERS['id']}/resourceGroups/landing-zone"
    platform = ran("dev", resource_group__existing=group)
    azure = [one for one in platform.resources if one.type.startswith("azure-native:")]
    assert not of_kind(azure, "resources:ResourceGroup")
    assert [one.id for one in azure if not one.id.startswith(f"{group}/providers/")] == []
    assert only(azure, "consumption:Budget").inputs["scope"] == group
    assert platform.platform["resource_group"] == "landing-zone"
    assert len(azure) == len(of_azure(rendered("dev"))) - 1


def test_tags_of_others_are_left_on_every_resource_that_has_tags():
    resources = rendered("dev", ignored_tags=["CostCentre", "created by"])
    for one in of_azure(resources):
        ignored = [path for path in one.options.get("ignoreChanges", ()) if path.startswith("tags")]
        expected = ['tags["CostCentre"]', 'tags["created by"]'] if "tags" in one.inputs else []
        assert ignored == expected, one.key


def test_what_holds_a_globally_unique_name_keeps_it():
    kept = {
        one.key: path
        for one in rendered("prod")
        for path in one.options.get("ignoreChanges", ())
        if path.endswith("Name")
    }
    assert kept == {
        "azure-native:storage:StorageAccount::storage-default": "accountName",
        "azure-native:storage:StorageAccount::storage-data": "accountName",
        "azure-native:containerregistry:Registry::registry": "registryName",
        "azure-native:keyvault:Vault::vault": "vaultName",
    }
