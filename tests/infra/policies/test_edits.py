"""Edits of a program that a reviewer can miss: each of them breaks a rule.

An edit changes a declared resource, as a wrong line in the program would; the mutations of
`tests/infra/mutations` change one input at a time.
"""

import dataclasses

import pytest

from infra.policies import pack
from infra.resources import ASSIGNMENT, PROVIDER, Resource, of_kind
from tests.infra.support.production import changed
from tests.infra.support.stacks import rendered, settings_of
from tests.infra.support.variants import OPTIONS

SPOKE, HUB = OPTIONS["spoke"], OPTIONS["their network, links declared"]
STRANGER = "99999999-9999-9999-9999-999999999999"
ROUTED = {"network.route_table": SPOKE["network.route_table"]}
READS = {"monitoring.storage_reads": True}


def of_azure(kind, name, **inputs):
    return Resource(f"azure-native:{kind}", name, inputs, {}, f"/subscriptions/s/{name}")


def replaced(stack, change, where=lambda _: True):
    return [change(one) if where(one) else one for one in stack]


def with_subnets(stack, **change):
    """The stack with inputs of every subnet set, or left out for None."""
    [network] = of_kind(stack, "network:VirtualNetwork")
    subnets = [
        {key: value for key, value in (subnet | change).items() if value is not None}
        for subnet in network.inputs["subnets"]
    ]
    return changed("network", "subnets", subnets, stack)


def with_foreign(type_):
    """An edit that adds a resource of a type."""
    return lambda stack: [*stack, Resource(type_, "x", {}, {}, "x")]


def with_gateway(stack):
    """The stack with a NAT gateway and its address in addition to the route table."""
    plain = rendered("dev")
    return [*stack, *of_kind(plain, "network:NatGateway", "network:PublicIPAddress")]


def with_principal(stack, holder, other):
    """The stack in which all roles of one identity are given to another's principal."""
    [identity] = [one for one in stack if one.name == f"identity-{other}"]
    return replaced(
        stack,
        lambda one: dataclasses.replace(
            one, inputs={**one.inputs, "principalId": identity.outputs["principalId"]}
        ),
        lambda one: one.kind == ASSIGNMENT and one.name.startswith(f"{holder}-"),
    )


def provided(stack, name, **inputs):
    """The stack with other inputs of a provider."""
    return replaced(
        stack,
        lambda one: dataclasses.replace(one, inputs={**one.inputs, **inputs}),
        lambda one: one.type == PROVIDER and one.name == name,
    )


def datastores(stack, **change):
    """The stack with inputs of the datastore of results changed."""
    [store] = [one for one in stack if one.name == "datastore-training_data_results"]
    return changed(store.name, "properties", {**store.inputs["properties"], **change}, stack)


EDITS = {
    # The settings ask for it, and the program leaves it out.
    "the firewall is left out": (
        ROUTED,
        lambda stack: with_gateway(
            with_subnets(
                stack, routeTable=None, natGateway={"id": "/natGateways/hvd-dev-nat"}
            )
        ),
        "closed-subnets",
    ),
    "a gateway stands beside the firewall": (ROUTED, with_gateway, "complete"),
    "reads are not logged": (
        READS,
        lambda stack: changed(
            "diagnostics-data-blob", "logs",
            [{"category": one, "enabled": True} for one in ("StorageWrite", "StorageDelete")],
            stack,
        ),
        "diagnostics",
    ),
    # Too many of what leads out.
    "a second gateway": (
        {}, lambda stack: [*stack, of_azure("network:NatGateway", "out")], "complete",
    ),
    "a second public address": (
        {}, lambda stack: [*stack, of_azure("network:PublicIPAddress", "out")], "complete",
    ),
    # Types of other providers.
    **{
        f"a resource of {type_}": (
            {}, with_foreign(type_),
            "only-reviewed",
        )
        for type_ in (
            "azure:storage/account:Account",
            "command:local:Command",
            "pulumi-python:dynamic:Resource",
            "pulumi:pulumi:StackReference",
            "pulumi:providers:command",
        )
    },
    # The subscription and the tenant.
    "another subscription": (
        {}, lambda stack: provided(stack, "azure", subscriptionId=STRANGER), "own-subscription",
    ),
    "another tenant": (
        {}, lambda stack: provided(stack, "azure", tenantId=STRANGER), "own-subscription",
    ),
    "no tenant": (
        {}, lambda stack: provided(stack, "azure", tenantId=None), "own-subscription",
    ),
    "no tenant in the hub": (
        HUB, lambda stack: provided(stack, "hub", tenantId=None), "own-subscription",
    ),
    "another subscription than the hub's": (
        HUB, lambda stack: provided(stack, "hub", subscriptionId=STRANGER), "own-subscription",
    ),
    "a provider that the settings do not name": (
        {}, lambda stack: [*stack, Resource(PROVIDER, "other", {}, {}, "")], "own-subscription",
    ),
    "a resource without the stack's provider": (
        {},
        lambda stack: replaced(
            stack,
            lambda one: dataclasses.replace(one, options={**one.options, "provider": "default"}),
            lambda one: one.name == "vault",
        ),
        "own-subscription",
    ),
    # Names and places that belong together.
    "results lie among raw data": (
        {}, lambda stack: datastores(stack, containerName="raw"), "own-containers",
    ),
    "results lie in the other account": (
        {},
        lambda stack: datastores(
            stack,
            accountName=settings_of("dev").names.data_storage,
        ),
        "own-containers",
    ),
    "the datastores' names are exchanged": (
        {},
        lambda stack: changed(
            "datastore-training_data_raw", "name", "training_data_prepared", stack
        ),
        "own-containers",
    ),
    "prepared data in the default account": (
        {},
        lambda stack: changed(
            "data-prepared", "accountName", settings_of("dev").names.default_storage, stack
        ),
        "own-containers",
    ),
    "all roles of training for preparation": (
        {}, lambda stack: with_principal(stack, "training", "preparation"), "least-privilege",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_each_edit_breaks_its_rule(edit):
    overrides, change, rule = EDITS[edit]
    stack, settings = list(rendered("dev", **overrides)), settings_of("dev", **overrides)
    edited = change(stack)
    assert edited != stack
    assert rule in {one.rule for one in pack.check(edited, settings)}


@pytest.mark.parametrize("option", [ROUTED, READS])
def test_the_stacks_before_the_edits_break_none(option):
    assert pack.check(rendered("dev", **option), settings_of("dev", **option)) == []
