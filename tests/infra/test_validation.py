"""What settings must not say together, and what Azure would refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog import vm_sizes
from infra.validation import load
from tests.infra.support.configurations import (
    GROUP,
    NETWORK,
    STORAGE,
    TENANT,
    VAULT,
    configured,
    problem,
    problems,
)

ROUTES = f"{GROUP}/providers/Microsoft.Network/routeTables/to-firewall"
RETIRED = [size for size in vm_sizes.GPU if size.status == "retired"]


@pytest.mark.parametrize("size", RETIRED, ids=lambda size: size.name)
def test_a_retired_size_is_refused_with_the_one_to_take(size):
    found = problem(("clusters.gpu.size", size.name))
    assert f"{size.name} was retired ({size.since}); use {size.replacement} instead" in found
    assert load(configured(("clusters.gpu.size", size.replacement)))


@pytest.mark.parametrize("size", vm_sizes.deployable(gpu=True), ids=lambda s: s.name)
def test_every_deployable_gpu_size_makes_a_stack_also_with_a_twin(size):
    twin = {"size": size.name, "max_nodes": 2}
    settings = load(configured(("clusters.gpu.size", size.name), ("clusters.gpu_dedicated", twin)))
    names = [settings.cluster_name(key) for key in settings.clusters]
    assert len(set(names)) == 4


def test_a_quota_that_just_suffices_is_enough():
    settings = load(configured(("subscription.low_priority_cores", 80)))
    assert settings.clusters["gpu"].max_nodes == 2
    assert "need 120 (clusters.gpu 120); use fewer nodes or request more quota" in problem(
        ("clusters.gpu.max_nodes", 3), ("subscription.low_priority_cores", 119)
    )


def test_dedicated_nodes_do_not_count_against_the_low_priority_quota():
    twin = {"size": "Standard_ND40rs_v2", "max_nodes": 50}
    given = (("clusters.gpu_dedicated", twin), ("subscription.low_priority_cores", 80))
    assert load(configured(*given)).clusters["gpu_dedicated"].max_nodes == 50
    assert problem(*given, ("subscription.dedicated_cores", {"NDv2": 1999})).startswith(
        "subscription.dedicated_cores.NDv2: 1999 cores, but with max_nodes running the clusters "
        "need 2000"
    )


def test_all_low_priority_clusters_share_one_quota():
    spare = {"size": "Standard_NC64as_T4_v3", "max_nodes": 1, "priority": "low"}
    assert load(configured(("clusters.spare", spare), ("subscription.low_priority_cores", 144)))
    assert "need 144 (clusters.gpu 80, clusters.spare 64)" in problem(
        ("clusters.spare", spare), ("subscription.low_priority_cores", 143)
    )


def test_a_cluster_may_not_have_the_name_that_another_one_gets():
    generated = load(configured()).cluster_name("build")
    found = problem(("clusters.gpu.name", generated.upper()))
    assert found.startswith(f"clusters.gpu.name: '{generated.upper()}' is the name that clusters.")


def test_a_network_is_not_peered_with_itself():
    settings = load(configured())
    group = f"/subscriptions/{settings.subscription.id}/resourceGroups/{settings.names.base}-rg"
    own = f"{group}/providers/Microsoft.Network/virtualNetworks/{settings.names.virtual_network}"
    found = problem(("network.peer_with", [own]), ("network.peer_address_spaces", ["10.1.0.0/16"]))
    assert found == "network.peer_with: contains the stack's own network; remove it"


def test_two_clusters_of_one_name_are_refused():
    found = problem(("clusters.gpu.name", "nodes"), ("clusters.build.name", "Nodes"))
    assert found.startswith("clusters.build.name: 'Nodes' is also the name of clusters.gpu")


def test_a_cluster_keeps_the_name_that_it_is_given():
    settings = load(configured(("clusters.gpu.name", "v100")))
    assert settings.cluster_name("gpu") == "v100"
    assert settings.cluster_name("build") == settings.names.build_cluster


ALLOWED = [
    ([], "is empty, so the allowlisted profile would admit no one"),
    (["10.0.0.1"], "10.0.0.1 is not a public address"),
    (["203.0.113.7"], "203.0.113.7 is not a public address"),
    (["20.103.0.0/32"], "rejects /31 and /32"),
    (["20.103.0.0/31"], "rejects /31 and /32"),
    (["20.0.0.0/8"], "large part of the internet"),
    (["20.0.0.0/15"], "use ranges of /16 or smaller"),
    (["0.0.0.0/0"], "allowed_addresses[0]: 0.0.0.0/0 is"),
    (["office"], "'office' is not an IPv4 address or range"),
    (["20.103.0.7", "20.103.0.7"], "contains 20.103.0.7 twice"),
    (
        [f"20.{net}.{i}.1" for net in (103, 104) for i in range(256)],
        "a storage account accepts at most 400",
    ),
]


@pytest.mark.parametrize(("addresses", "says"), ALLOWED, ids=lambda part: str(part)[:40])
def test_an_allowlist_that_lets_in_nobody_or_everybody_is_refused(addresses, says):
    assert says in problem(("profile", "allowlisted"), ("allowed_addresses", addresses))


def test_an_allowlist_of_public_addresses_is_taken():
    given = (("profile", "allowlisted"), ("allowed_addresses", ["20.103.0.7", "20.104.0.0/24"]))
    assert load(configured(*given)).allowed_addresses == ("20.103.0.7", "20.104.0.0/24")


def existing(**changes):
    roles = ("training", "build", "endpoints")
    subnets = {f"{role}_subnet": f"{NETWORK}/subnets/{role}" for role in roles}
    return {"virtual_network": NETWORK} | subnets | changes


def test_what_exists_already_is_taken_by_its_id():
    settings = load(
        configured(
            ("network.existing", existing()),
            ("network.existing_dns_zones", GROUP),
            ("registry.existing", f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/hub"),
            ("vault.existing", VAULT),
            ("storage.existing_default", f"{STORAGE}/one"),
            ("storage.existing_data", f"{STORAGE}/two"),
            (
                "monitoring.existing_log_workspace",
                f"{GROUP}/providers/Microsoft.OperationalInsights/workspaces/hub",
            ),
        )
    )
    assert settings.network.existing.endpoints_subnet == f"{NETWORK}/subnets/endpoints"


def test_ids_are_taken_in_the_case_that_azure_hands_them_out_in():
    vault = VAULT.replace("resourceGroups", "resourcegroups").replace("KeyVault", "Keyvault")
    assert load(configured(("vault.existing", vault))).vault.existing == vault


TAKEN = [
    ({"build_subnet": f"{NETWORK}2/subnets/build"}, (), "is not in network.existing.virt"),
    ({"endpoints_subnet": f"{NETWORK}/subnets/training"}, (), "is also a subnet of nodes"),
    ({"endpoints_subnet": f"{NETWORK}/subnets/build"}, (), "is also a subnet of nodes"),
    ({"build_subnet": f"{NETWORK}/subnets/training"}, (), "is also the training subnet; only"),
    ({}, (("network.jump_subnet", True),), "network.jump_subnet: cannot be combined with"),
    ({}, (("network.peer_with", [NETWORK]),), "network.peer_with: cannot be combined with"),
    ({}, (("network.dns_servers", ["10.0.0.4"]),), "network.dns_servers: cannot be combined with"),
    ({}, (("network.route_table", ROUTES),), "network.route_table: cannot be combined with"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "also", "says"), TAKEN, ids=lambda part: str(part)[-40:])
def test_a_network_of_someone_else_is_left_as_it_is(changes, also, says):
    assert says in problem(("network.existing", existing(**changes)), *also)


ELSEWHERE = "/subscriptions/99999999-0000-4000-8000-000000000000/resourceGroups/hub/providers"


def test_network_and_route_table_are_of_the_stacks_own_subscription():
    there = f"{ELSEWHERE}/Microsoft.Network/virtualNetworks/hub"
    subnets = {f"{one}_subnet": f"{there}/subnets/{one}" for one in ("training", "build")}
    subnets["endpoints_subnet"] = f"{there}/subnets/endpoints"
    said = problem(("network.existing", {"virtual_network": there, **subnets}))
    assert "virtual_network: is not in subscription.id 00000000-0000-4000-8000-000000000000" in said
    routes = f"{ELSEWHERE}/Microsoft.Network/routeTables/to-firewall"
    assert "network.route_table: is not in" in problem(("network.route_table", routes))


@pytest.mark.parametrize("name", ["azure-owner", "Microsoft.Team", "windows"])
def test_names_of_tags_that_azure_reserves_are_refused(name):
    tags = {"owner": "team", "cost-center": "42", name: "x"}
    assert f"tags.{name}: Azure reserves names" in problem(("tags", tags))


HUB = (("network.peer_with", [NETWORK]), ("network.peer_address_spaces", ["10.0.0.0/16"]))
ZONES = ("network.existing_dns_zones", GROUP)
POLICY = ("network.private_dns", "policy")
DECLARED, PRESENT = ("network.dns_links", "declared"), ("network.dns_links", "existing")
SERVERS = ("network.dns_servers", ["10.0.0.4"])
REGISTRY = ("registry.existing", f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/hub")
ENDPOINTS = ("network.existing_endpoints", {"registry": "10.0.8.0/27"})

NAMES_RESOLVE = [
    (),
    HUB,
    (ZONES, DECLARED),
    (ZONES, PRESENT),
    (ZONES, *HUB, SERVERS),
    (ZONES, ("network.private_dns", "hub"), DECLARED),
    (ZONES, ("network.existing", existing())),
    (ZONES, ("network.existing", existing()), DECLARED),
    (POLICY, PRESENT),
    (POLICY, *HUB, SERVERS),
    (POLICY, ("network.existing", existing())),
    (*HUB, ZONES, DECLARED, REGISTRY, ENDPOINTS),
]


@pytest.mark.parametrize("changes", NAMES_RESOLVE, ids=lambda part: str(part)[:60])
def test_private_names_resolve_in_each_of_three_ways(changes):
    network = load(configured(*changes)).network
    expected = "policy" if POLICY in changes else "hub" if ZONES in changes else "own"
    assert network.dns_mode == expected


CONNECTIONS = [
    ((ZONES,), "network.dns_links: is missing; the network that this stack declares would resolve"),
    ((POLICY,), "Set it to existing, or set network.dns_servers"),
    ((("network.private_dns", "hub"), PRESENT), "network.existing_dns_zones: is missing"),
    ((POLICY, ZONES, PRESENT), "cannot be combined with network.private_dns policy"),
    ((ZONES, ("network.private_dns", "own")), "cannot be combined with network.private_dns own"),
    ((DECLARED,), "network.dns_links: has no effect"),
    ((POLICY, DECLARED), "network.dns_links: cannot be declared with network.private_dns policy"),
    ((*HUB, REGISTRY, ENDPOINTS), "set network.private_dns to hub or policy"),
    ((*HUB, ZONES, PRESENT, ENDPOINTS), "set registry.existing, or remove the entry"),
    ((ZONES, PRESENT, REGISTRY, ENDPOINTS), "10.0.8.0/27 is in none of network.peer_address_spac"),
    (
        (*HUB, ZONES, PRESENT, ("network.existing_endpoints", {"acr": "10.0.8.0/27"})),
        "is not a service; choose from default_storage, data_storage, registry, vault",
    ),
    (
        (*HUB, ZONES, PRESENT, REGISTRY, ("network.existing_endpoints", {"registry": "hub"})),
        "network.existing_endpoints.registry: 'hub' is not a range like 10.0.0.0/27",
    ),
    (
        (*HUB, ZONES, ("network.dns_servers", [f"10.0.0.{i}" for i in range(4, 25)])),
        "network.dns_servers: 21 addresses, but a network accepts at most 20",
    ),
    ((*HUB, ZONES, ("network.dns_servers", ["10.0.0.4"] * 2)), "contains 10.0.0.4 twice"),
    ((*HUB, ("network.dns_servers", ["hub"])), "'hub' is not an IPv4 address, such as 10.0.0.4"),
    ((*HUB, ("network.dns_servers", ["10.9.0.4"])), "10.9.0.4 is in none of network.peer_addres"),
    ((("network.remote_gateway", NETWORK),), "network.remote_gateway: '/subscriptions/"),
    ((("network.jump_access", ["10.0.0.0/26"]),), "has no effect; set network.jump_subnet to true"),
    (
        (("network.jump_subnet", True), ("network.jump_access", ["20.0.0.0/8"])),
        "network.jump_access[0]: 20.0.0.0/8 is not private; list private ranges only",
    ),
    (
        (HUB[0], ("network.peer_address_spaces", ["128.0.0.0/1"])),
        "network.peer_address_spaces[0]: 128.0.0.0/1 is not private; list private ranges only",
    ),
    (
        (("network.peer_with", [NETWORK, NETWORK.replace("hub/prov", "other/prov")]), HUB[1]),
        "network.peer_with: names two networks called 'hub', but a peering is named after",
    ),
    ((("network.route_table", NETWORK),), "must be a resource id /subscriptions/"),
]


BRIDGE = ("network.peer_address_spaces", ["172.17.0.0/16"])
BEHIND = ("network.existing_endpoints", {"registry": "172.17.9.0/27"})


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ((HUB[0], BRIDGE), ["peer_address_spaces[0]"]),
        (
            (HUB[0], ("network.peer_address_spaces", ["10.0.0.0/16", "172.16.0.0/12"])),
            ["peer_address_spaces[1]"],
        ),
        ((*HUB, ("network.dns_servers", ["172.17.0.4"])), ["dns_servers[0]"]),
        (
            (HUB[0], BRIDGE, ZONES, PRESENT, REGISTRY, BEHIND),
            ["peer_address_spaces[0]", "existing_endpoints.registry"],
        ),
        (
            (ZONES, REGISTRY, ("network.existing", existing()), BEHIND),
            ["existing_endpoints.registry"],
        ),
    ],
)
def test_nodes_reach_no_range_of_their_own_containers(changes, keys):
    said = problems(*changes)
    assert [text.partition(":")[0] for text in said] == [f"network.{key}" for key in keys]
    assert all("overlaps 172.17.0.0/16, which the nodes' containers use" in text for text in said)


def test_people_may_reach_the_platform_from_a_range_that_no_node_reaches():
    managed = ("profile", "managed"), ("managed_network.accept_one_way", True)
    assert load(configured(*managed, ("clusters.build", None), HUB[0], BRIDGE))


@pytest.mark.parametrize(("changes", "says"), CONNECTIONS, ids=lambda part: str(part)[-50:])
def test_a_connection_that_cannot_work_is_refused_with_what_to_do(changes, says):
    assert says in problem(*changes)


def test_training_data_need_an_account_of_their_own():
    found = problem(
        ("storage.existing_default", f"{STORAGE}/one"), ("storage.existing_data", f"{STORAGE}/ONE")
    )
    assert found.startswith("storage.existing_data: is the same account as")


KEY = ("encryption.key_uri", "https://hub.vault.azure.net/keys/platform/0123")
MANAGED = ("encryption.customer_managed_keys", True)
OWN_GROUP = ("resource_group.existing", f"{GROUP[: GROUP.rindex('/')]}/landing-zone")
KEYS = [
    ((MANAGED, ("vault.existing", VAULT)), "encryption.key_uri: is missing"),
    ((KEY, ("vault.existing", VAULT)), "encryption.key_uri: has no effect"),
    ((MANAGED, KEY, ("vault.purge_protection", True)), "encryption.key_vault: is missing"),
    ((MANAGED, KEY, ("encryption.key_vault", VAULT + "2")), "but encryption.key_vault is 'hub2'"),
    ((MANAGED, ("encryption.key_vault", VAULT)), "the stack adds no key to encryption.key_vault"),
    ((("encryption.service_side", True),), "encryption.service_side: has no effect"),
    ((MANAGED, ("vault.purge_protection", True), OWN_GROUP), "encryption.service_side: must be"),
    ((MANAGED, KEY, ("encryption.key_vault", VAULT), OWN_GROUP, ("encryption.service_side", True)),
     "encryption.key_vault: is outside resource_group.existing"),
    ((MANAGED, KEY, ("vault.existing", VAULT + "2")), "vault 'hub', but vault.existing is 'hub2'"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), KEYS, ids=lambda part: str(part)[:40])
def test_a_key_and_its_vault_go_together(changes, says):
    assert says in problem(*changes)


def test_keys_of_ones_own_or_of_an_existing_vault_are_taken():
    assert load(configured(MANAGED, ("vault.purge_protection", True)))
    assert load(configured(MANAGED, KEY, ("vault.existing", VAULT)))
    assert load(configured(MANAGED, KEY, ("encryption.key_vault", VAULT)))


def test_a_vault_outside_a_vended_group_is_taken_if_the_stack_assigns_no_roles():
    given = (OWN_GROUP, ("vault.existing", VAULT))
    assert "set roles to existing" in problem(*given)
    assert load(configured(*given, ("roles", "existing"))).vault.existing == VAULT


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 100), st.integers(1, 60))
def test_the_subnets_hold_all_clusters_at_their_largest_at_once(gpu, twin, preparation, build):
    settings = load(
        configured(
            ("network.address_space", "10.64.0.0/21"),
            ("clusters.gpu.max_nodes", gpu),
            ("clusters.gpu_dedicated", {"size": "Standard_ND40rs_v2", "max_nodes": twin}),
            ("clusters.preparation.max_nodes", preparation),
            ("clusters.build.max_nodes", build),
        )
    )
    subnets = settings.address_plan.subnets
    assert subnets["training"].num_addresses - 5 >= gpu + twin + preparation
    assert subnets["build"].num_addresses - 5 >= build


def test_more_nodes_within_the_room_kept_for_them_move_no_subnet():
    few = load(configured(("clusters.gpu.max_nodes", 1)))
    many = load(configured(("clusters.gpu.max_nodes", 100)))
    assert few.address_plan == many.address_plan


# The values that Pulumi hands over, and its output.


PEER = f"{GROUP.replace('hub', 'other')}/providers/Microsoft.Network/virtualNetworks/hub"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/logs"
MANY = {f"t{number}": "" for number in range(47)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([("budget.emails", ["a@b.de", "A@b.de"])], "budget.emails: contains a@b.de twice"),
        ([("tags.Owner", "x")], "tags.Owner: differs from 'owner' in case only"),
        ([("tags.stack", "x")], "tags.stack: the stack sets this tag itself"),
        ([("tags.Managed-By", "x")], "tags.Managed-By: the stack sets this tag itself"),
        ([(f"tags.{tag}", "") for tag in MANY], "tags: 49 tags, but Azure accepts 50"),
        ([("subscription", {"tenant": TENANT})], "subscription.id: is missing"),
        ([("subscription.id", "mine")], "`make configure STACK=NAME`"),
        ([("resource_group.existing", "rg")], "must be a resource group's id"),
        (
            [("resource_group.existing", GROUP), ("network.flow_logs_to", ACCOUNT)],
            "network.flow_logs_to: cannot be combined with resource_group.existing",
        ),
        (
            [("resource_group.existing", GROUP.replace("00000000", "22222222"))],
            "is not in subscription.id 00000000-0000-4000-8000-000000000000",
        ),
        (
            [
                ("resource_group.existing", GROUP.replace("hub", "mine")),
                (
                    "registry.existing",
                    f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/r",
                ),
            ],
            "registry.existing: is outside resource_group.existing",
        ),
    ],
    ids=lambda part: str(part)[:40],
)
def test_what_azure_would_refuse_is_said_before(changes, says):
    assert says in problem(*changes)


def test_a_group_that_exists_may_hold_services_that_exist():
    registry = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/r"
    settings = load(configured(("resource_group.existing", GROUP), ("registry.existing", registry)))
    assert settings.names.resource_group == "hub"


def test_a_service_beside_the_zones_of_a_hub_needs_the_range_of_its_endpoint():
    registry = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/hub"
    shared = (
        ("registry.existing", registry),
        ("network.existing_dns_zones", GROUP),
        ("network.dns_links", "existing"),
        ("network.peer_with", [NETWORK]),
        ("network.peer_address_spaces", ["10.0.0.0/16"]),
    )
    assert problem(*shared).startswith("network.existing_endpoints.registry: is missing")
    load(configured(*shared, ("network.existing_endpoints", {"registry": "10.0.1.0/27"})))
