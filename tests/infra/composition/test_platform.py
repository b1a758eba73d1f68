"""The whole program, run without Azure, with every way to switch it."""

import json

import pulumi
import pytest

from infra import outputs
from infra.outputs import from_dict, to_dict
from infra.policies.pack import check
from infra.resources import ASSIGNMENT, COMPUTE, INSIGHTS, STORAGE, WORKSPACE, of_kind, requirements
from infra.stack_config import PLACEHOLDERS
from tests.infra.support.stacks import key, nightly, only, ran, rendered, settings_of
from tests.infra.support.variants import KEYS, LOGS, OPTIONS, SERVICES, SIZES

ENDPOINT = "network:PrivateEndpoint"
ZONE_GROUP = "network:PrivateDnsZoneGroup"


def of_azure(resources):
    return [one for one in resources if one.type.startswith("azure-native:")]


def test_the_stack_that_prepares_data_is_declared_once_it_has_an_account_for_them():
    with pytest.raises(pulumi.RunError, match=r"storage\.existing_data: '' must be a resource id"):
        rendered("dev-prep")
    account = {"storage.existing_data": ran("dev").data_account}
    resources = rendered("dev-prep", **account)
    assert check(resources, settings_of("dev-prep", **account)) == []
    assert only(resources, STORAGE).name == "storage-default"


@pytest.mark.parametrize("size", nightly(SIZES))
def test_every_size_that_can_be_deployed_makes_a_cluster_of_it(size):
    cluster = only(rendered("dev", **SIZES[size]), COMPUTE, "cluster-gpu")
    assert cluster.inputs["properties"]["properties"]["vmSize"] == size


def test_accounts_can_keep_public_endpoints_for_trusted_services_alone():
    accounts = of_kind(rendered("dev", **OPTIONS["what azure may demand"]), STORAGE)
    assert len(accounts) == 2
    for account in accounts:
        assert account.inputs["publicNetworkAccess"] == "Enabled"
        rules = account.inputs["networkRuleSet"]
        assert (rules["defaultAction"], rules["bypass"]) == ("Deny", "AzureServices")
        assert not rules.get("ipRules")


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
                INSIGHTS,
                "network:ServiceEndpointPolicy",
                "monitor:DiagnosticSetting",
                "monitor:ScheduledQueryRule",
            )
        }
    # Application Insights keeps its data in the existing log workspace.
    logs = SERVICES["monitoring.existing_log_workspace"]
    assert only(resources, INSIGHTS).inputs["workspaceResourceId"] == logs
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


def test_an_identity_for_endpoints_reads_models_and_pulls_images():
    assert "serving" not in str([one.name for one in of_kind(rendered("dev"), ASSIGNMENT)])
    resources = rendered("dev", serving=True)
    assigned = {
        one.name for one in of_kind(resources, ASSIGNMENT) if one.name.startswith("serving-")
    }
    assert assigned == {"serving-registry-acrpull", "serving-results-storage-blob-data-reader"}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_workspace_names_application_insights_without_which_azure_refuses_it(option):
    resources = rendered("dev", **OPTIONS[option])
    insights = only(resources, "applicationinsights:Component")
    assert only(resources, WORKSPACE).inputs["applicationInsights"] == insights.id
    # Without keys, and with its data in the log workspace of the stack or of the settings.
    logs = [one.id for one in of_kind(resources, "operationalinsights:Workspace")]
    assert insights.inputs["disableLocalAuth"] is True
    assert insights.inputs["ingestionMode"] == "LogAnalytics"
    assert insights.inputs["workspaceResourceId"] == (logs or [LOGS])[0]
    assert not [one for one in of_kind(resources, ASSIGNMENT) if "metrics" in one.name]


def test_a_workspace_that_was_created_without_application_insights_can_stay_so():
    resources = rendered("dev", monitoring__application_insights=False)
    assert not of_kind(resources, "applicationinsights:Component")
    assert "applicationInsights" not in only(resources, WORKSPACE).inputs


@pytest.mark.parametrize(
    ("option", "access"),
    [
        ("as it is", "Disabled"),
        ("managed network", "Disabled"),
        ("monitor private link", "Disabled"),
        ("everything on", "Disabled"),
        ("allowlisted", "Enabled"),
    ],
)
def test_only_an_open_platform_lets_programs_report_to_application_insights(option, access):
    insights = only(rendered("dev", **OPTIONS[option]), "applicationinsights:Component")
    assert insights.inputs["publicNetworkAccessForIngestion"] == access


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


def test_all_resources_are_of_the_subscription_that_the_stack_is_pinned_to():
    pinned = "22222222-2222-4222-8222-222222222222"
    tenant = "33333333-3333-4333-8333-333333333333"
    stack = ran("dev", subscription__id=pinned, subscription__tenant=tenant)
    resources = stack.resources
    provider = stack.providers["azure"]
    assert (provider["subscriptionId"], provider["tenantId"]) == (pinned, tenant)
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
