"""The policy pack, started as Pulumi's CLI starts it and asked as its engine asks."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from infra.policies import pack
from infra.stack_config import assign, configuration, encode, with_subscription
from tests import ROOT
from tests.infra.support.production import GROUP, OVERRIDES, STACK, changed, without
from tests.infra.support.stacks import file_of


def configured():
    """The configuration of the sample stack."""
    _, values = configuration("prod", file_of("prod"))
    for key, value in OVERRIDES.items():
        values = assign(values, key, value)
    return with_subscription(values)


PACK = ROOT / "infra" / "policies"
PROJECT = "pack-test"
CONFIG = {key: encode(value) for key, value in configured().items()}
READS = "training-prepared-storage-blob-data-reader"
WRITER = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
OUTPUT_NAMES = {"name", "tags", "sku", "kind", "properties", "principalId"}
"""Inputs that Azure's answers repeat; parts of an identifier, such as `vaultName`, are not."""


@pytest.fixture(scope="module")
def engine():
    """A connection to the pack."""
    told = {
        "PULUMI_PROJECT": PROJECT,
        "PULUMI_STACK": "prod",
        "PULUMI_DRY_RUN": "true",
        "PULUMI_CONFIG": json.dumps({f"{PROJECT}:{key}": text for key, text in CONFIG.items()}),
    }
    with started(os.environ | told) as engine:
        yield engine


@contextlib.contextmanager
def started(environment):
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."],
        cwd=PACK,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
    finally:
        process.kill()
        process.wait(timeout=120)
        process.stdout.close()


def urn(resource, stack="prod"):
    return f"urn:pulumi:{stack}::{PROJECT}::{resource.type}::{resource.name}"


def properties(inputs):
    found = struct_pb2.Struct()
    found.update(json.loads(json.dumps(inputs)))
    return found


def own(stack):
    """The part that the engine shows to a policy."""
    return [one for one in stack if one.type.startswith("azure-native:")]


def shown(diagnostics):
    assert all(one.enforcementLevel == analyzer_pb2.MANDATORY for one in diagnostics)
    return [(one.policyName, one.message.split(" (")[0].splitlines()[-1]) for one in diagnostics]


def analyze(engine, resources, stack="prod"):
    """The messages about each resource, before the engine creates it."""
    return [
        one
        for resource in own(resources)
        for one in engine.Analyze(
            analyzer_pb2.AnalyzeRequest(
                urn=urn(resource, stack),
                type=resource.type,
                name=resource.name,
                properties=properties(resource.inputs),
                options=analyzer_pb2.AnalyzerResourceOptions(
                    protect=bool(resource.options.get("protect")),
                    ignoreChanges=resource.options.get("ignoreChanges", ()),
                ),
            )
        ).diagnostics
    ]


def analyze_stack(engine, stack):
    """The messages about the whole stack at the end, when it shows outputs."""
    stack = own(stack)
    urns = {one.key: urn(one) for one in stack}
    return engine.AnalyzeStack(
        analyzer_pb2.AnalyzeStackRequest(
            resources=[
                analyzer_pb2.AnalyzerResource(
                    urn=urn(one),
                    type=one.type,
                    name=one.name,
                    properties=properties(
                        {key: one.inputs[key] for key in OUTPUT_NAMES & set(one.inputs)}
                    ),
                    dependencies=[
                        urns[key] for key in one.options.get("dependsOn", ()) if key in urns
                    ],
                )
                for one in stack
            ]
        )
    ).diagnostics


def test_the_pack_offers_every_rule_with_its_description(engine):
    told = {one.name: one.description for one in engine.GetAnalyzerInfo(empty_pb2.Empty()).policies}
    assert {rule.name: rule.description for rule in pack.ALL}.items() <= told.items()


def test_a_stack_that_keeps_every_rule_may_be_created(engine):
    assert analyze(engine, STACK) == []
    assert shown(analyze_stack(engine, STACK)) == []


@pytest.mark.parametrize(
    ("rule", "name", "path", "setting"),
    [
        ("high-business-impact", "workspace", "hbiWorkspace", False),
        ("no-public-endpoint", "vault", "properties.publicNetworkAccess", "enabled"),
        (
            "clusters-as-set",
            "cluster-gpu",
            "properties.properties.scaleSettings.minNodeCount",
            1,
        ),
        ("required-tags", "registry", "tags", {"owner": "vision"}),
    ],
)
def test_a_resource_that_breaks_a_rule_is_stopped_before_it_is_created(
    engine, rule, name, path, setting
):
    assert shown(analyze(engine, changed(name, path, setting))) == [(rule, name)]


def test_what_a_deployment_ignores_reaches_the_rules(engine):
    [vault] = [one for one in STACK if one.kind == "keyvault:Vault"]
    blind = {**vault.options, "ignoreChanges": ["vaultName", "properties"]}
    said = analyze(engine, [dataclasses.replace(vault, options=blind)])
    assert shown(said) == [("nothing-ignored", "vault")]


def test_protect_reaches_the_rules(engine):
    bare = [
        type(one)(one.type, one.name, one.inputs, {}, one.id) if one.name == "vault" else one
        for one in STACK
    ]
    assert shown(analyze(engine, bare)) == [("protected", "vault")]


def test_rules_on_the_stack_see_inputs_that_are_no_outputs(engine):
    for stack, wanted in [
        (without("diagnostics-vault"), ("diagnostics", "vault")),
        (changed("nat", "publicIpAddresses", []), ("no-public-address", "nat")),
    ]:
        analyze(engine, stack)
        assert shown(analyze_stack(engine, stack)) == [wanted]


def test_who_is_given_a_role_is_told_by_what_the_assignment_depends_on(engine):
    stack = changed(READS, "roleDefinitionId", f"/roleDefinitions/{WRITER}")
    analyze(engine, stack)
    [one] = analyze_stack(engine, stack)
    assert one.policyName == "least-privilege"
    assert "gives training Storage Blob Data Contributor on" in one.message
    assert one.urn.endswith(f"::{READS}")


@pytest.mark.parametrize(
    ("rule", "name", "path", "setting"),
    [
        ("least-privilege", READS, "roleDefinitionId", f"/roleDefinitions/{WRITER}"),
        ("complete", "cluster-gpu", "computeName", "gpu-of-nobody"),
        ("complete", "vault", "vaultName", "kv-of-nobody"),
    ],
)
def test_what_only_the_state_has_breaks_no_rule_until_the_program_declares_it(
    engine, rule, name, path, setting
):
    """A refresh shows the pack what the deployment then deletes, and has no mark for it."""
    [one] = [one for one in changed(name, path, setting) if one.name == name and one not in STACK]
    left = dataclasses.replace(one, name=f"left-{name}")
    analyze(engine, STACK)
    assert shown(analyze_stack(engine, [*STACK, left])) == []
    analyze(engine, [left])
    found = analyze_stack(engine, [*STACK, left])
    assert rule in {one.policyName for one in found}
    assert {one.urn for one in found} <= {urn(left), ""}


def test_a_missing_budget_is_the_stacks_own_fault(engine):
    stack = without("budget")
    analyze(engine, stack)
    [one] = analyze_stack(engine, stack)
    assert (one.policyName, one.urn) == ("complete", "")


def test_a_state_alone_is_held_against_the_stacks_file():
    bare = [
        type(one)(one.type, one.name, one.inputs, {}, one.id) if one.name == "vault" else one
        for one in STACK
    ]
    with started(os.environ) as engine:
        assert ("protected", "vault") not in shown(analyze(engine, bare, stack="dev"))
        assert ("protected", "vault") in shown(analyze(engine, bare, stack="prod"))


def test_what_a_preview_cannot_know_is_a_remark_and_no_violation(engine):
    stack = changed("nat", "publicIpAddresses", [{"id": UNKNOWN_STRING_VALUE}])
    analyze(engine, stack)
    [one] = analyze_stack(engine, stack)
    assert one.policyName == "no-public-address"
    assert one.enforcementLevel == analyzer_pb2.ADVISORY
    assert "can't run policy" in one.message
    assert GROUP not in one.message
