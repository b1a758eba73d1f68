"""The picture shows what a stack declares: all of it that has a place, and nothing else."""

import dataclasses
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.offline.diagram import svg
from infra.offline.diagram.__main__ import main
from infra.offline.diagram.layout import draw
from infra.offline.diagram.view import view
from tests.infra.support.stacks import rendered
from tests.infra.support.variants import OPTIONS

SVG = "{http://www.w3.org/2000/svg}"
VARIANTS = [
    ("dev", {}),
    ("prod", {}),
    ("dev", OPTIONS["everything on"]),
    ("dev", OPTIONS["other clusters"]),
]
SPOKES = [
    ("dev", OPTIONS["spoke"]),
    ("dev", OPTIONS["records by policy"]),
    ("dev", OPTIONS["their services with endpoints"]),
]
THEIRS = ("dev", OPTIONS["everything theirs"])


def words(picture):
    return [element.text for element in ET.fromstring(picture).iter(f"{SVG}text")]


def drawn(resources):
    return words(draw(view(resources)))


def of_kind(resources, ending):
    return [one for one in resources if one.type.endswith(ending)]


def without(resources, ending):
    return [one for one in resources if not one.type.endswith(ending)]


@pytest.mark.parametrize(("stack", "overrides"), [*VARIANTS, *SPOKES, THEIRS])
def test_the_picture_is_well_formed_and_everything_is_inside_it(stack, overrides):
    root = ET.fromstring(draw(view(rendered(stack, **overrides))))
    width, height = float(root.get("width")), float(root.get("height"))
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert 0 <= x <= x + float(box.get("width")) <= width
        assert 0 <= y <= y + float(box.get("height")) <= height
    for element in root.iter(f"{SVG}text"):
        size = float(element.get("font-size"))
        assert 0 < float(element.get("y")) <= height
        room = width - float(element.get("x"))
        if element.get("text-anchor") == "start":
            assert svg.width_of(element.text, size) <= room + 1, element.text


@pytest.mark.parametrize(("stack", "overrides"), VARIANTS)
def test_every_cluster_endpoint_service_and_zone_is_named(stack, overrides):
    resources = rendered(stack, **overrides)
    shown = " ".join(drawn(resources))
    for ending, key in [
        ("machinelearningservices:Compute", "computeName"),
        ("machinelearningservices:Workspace", "workspaceName"),
        ("containerregistry:Registry", "registryName"),
        ("keyvault:Vault", "vaultName"),
        ("storage:StorageAccount", "accountName"),
        ("network:NatGateway", "natGatewayName"),
        ("network:PrivateEndpoint", "privateEndpointName"),
        ("privatedns:PrivateZone", "privateZoneName"),
        ("managedidentity:UserAssignedIdentity", "resourceName"),
    ]:
        found = of_kind(resources, ending)
        assert found, ending
        for one in found:
            assert one.inputs[key] in shown


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("machinelearningservices:Compute", "ND40rs_v2"),
        ("machinelearningservices:Workspace", "high business impact"),
        ("containerregistry:Registry", "Container registry"),
        ("keyvault:Vault", "Key vault"),
        ("storage:StorageAccount", "Premium LRS"),
        ("storage:BlobContainer", "containers prepared, raw"),
        ("network:NatGateway", "NAT gateway"),
        ("network:PublicIPAddress", "public address"),
        ("network:NetworkSecurityGroup", "security rules"),
        ("network:PrivateEndpoint", "amlworkspace"),
        ("privatedns:PrivateZone", "Private DNS zones"),
        ("authorization:RoleAssignment", "Role assignments"),
        ("operationalinsights:Workspace", "Log Analytics"),
        ("applicationinsights:Component", "Application Insights"),
        ("monitor:DiagnosticSetting", "Diagnostic settings"),
        ("monitor:ScheduledQueryRule", "Alerts"),
        ("consumption:Budget", "Budget"),
    ],
)
def test_what_is_not_declared_is_not_drawn(ending, text):
    resources = rendered("dev", monitoring__application_insights=True)
    assert any(text in line for line in drawn(resources))
    assert not any(text in line for line in drawn(without(resources, ending)))


def test_the_internet_is_drawn_only_where_a_way_out_leads_there():
    resources = rendered("dev")
    assert "Internet" in drawn(resources)
    assert "Internet" not in drawn(without(resources, "network:NatGateway"))


def test_who_is_let_in_from_outside_is_said_beside_the_service():
    stack, overrides = VARIANTS[2]
    shown = drawn(rendered(stack, **overrides))
    assert shown.count("open to 52.174.12.7") == 2
    assert shown.count("open to Entra sign-in") == 1
    assert not any(line.startswith("open to") for line in drawn(rendered("dev")))


def test_a_group_is_called_by_what_it_may_do():
    stack, overrides = VARIANTS[2]
    shown = drawn(rendered(stack, **overrides))
    assert {"publishers (group)", "scientists (group)"} <= set(shown)


def test_an_endpoint_leads_to_an_existing_service():
    stack, overrides = THEIRS
    theirs = [one for one in view(rendered(stack, **overrides)).services if not one.card.kind]
    assert {(one.card.title, one.card.lines, len(one.endpoints)) for one in theirs} == {
        ("theirRegistry", ("existing",), 1),
        ("theirvault", ("existing",), 1),
        ("theirdefault", ("existing",), 2),
        ("theirdata", ("existing",), 1),
    }


def test_clusters_in_someone_elses_network_are_drawn_in_their_subnets():
    stack, overrides = THEIRS
    shown = view(rendered(stack, **overrides))
    assert {one.name: len(one.clusters) for one in shown.subnets} == {
        "nodes": 2,
        "images": 1,
        "endpoints": 0,
    }
    assert "Existing virtual network hub" in words(draw(shown))


def test_a_subnet_holds_the_clusters_that_are_in_it():
    subnets = {one.name: one for one in view(rendered("prod")).subnets}
    gpu = [card.title for card in subnets["snet-training"].clusters]
    assert [name.split("-")[0] for name in gpu] == ["gpu", "gpu", "prep"]
    assert len(subnets["snet-build"].clusters) == 1
    assert subnets["snet-build"].way_out == "outbound through NAT"
    assert not subnets["snet-endpoints"].way_out


def test_a_spoke_is_drawn_with_its_hub_and_without_what_the_hub_has():
    resources = rendered("dev", **OPTIONS["their services with endpoints"])
    shown = view(resources)
    assert shown.network.lines[1:] == (
        "peered with hub, whose gateway it uses",
        "DNS servers 10.0.0.4, 10.0.0.5",
    )
    assert {one.way_out for one in shown.subnets if not one.has_endpoints} == {
        "outbound by the existing route table to-firewall"
    }
    assert {one.card.title for one in shown.services if not one.card.kind} == {
        "theirRegistry",
        "theirvault",
        "theirdefault",
        "theirdata",
    }
    text = words(draw(shown))
    assert "Existing private DNS zones" in text
    assert "Internet" not in text


def test_a_name_with_markup_is_shown_and_not_obeyed():
    resources = [
        dataclasses.replace(one, inputs={**one.inputs, "vaultName": "<script>&"})
        if one.type.endswith("keyvault:Vault")
        else one
        for one in rendered("dev")
    ]
    assert any("<script>&" in line for line in drawn(resources))


def test_the_order_of_declaration_does_not_matter():
    resources = rendered("dev")
    assert draw(view(resources)) == draw(view(resources[::-1]))


@given(st.text("abcdefghijklmMW -", max_size=60), st.floats(30, 300))
def test_a_shortened_text_fits_and_keeps_both_ends(text, width):
    short = svg.fitted(text, width, 12)
    if short != text:
        head, tail = short.split("…")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert svg.width_of(short, 12) <= width or len(short) <= 3


@given(st.lists(st.text("abcdef", min_size=1, max_size=8), max_size=12), st.floats(90, 300))
def test_wrapped_lines_fit_and_lose_no_word(parts, width):
    lines = svg.wrapped(" ".join(parts), width, 12)
    assert " ".join(lines).split() == parts
    assert all(svg.width_of(line, 12) <= width for line in lines)


def test_the_command_writes_where_it_is_told(tmp_path, capsys):
    path = tmp_path / "pictures" / "dev.svg"
    assert main(["dev", "--output", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == draw(view(rendered("dev")))
    assert str(path) in capsys.readouterr().out


def test_a_wrong_setting_is_told_without_a_traceback(tmp_path, capsys):
    path = tmp_path / "dev.svg"
    wrong = ["dev", "--set", "profile=public", "--set", "novalue", "--output", str(path)]
    assert main(wrong) == 2
    assert main([*wrong[:3], *wrong[5:]]) == 2
    told = capsys.readouterr().err
    assert "write KEY=VALUE" in told
    assert "profile" in told
    assert not path.exists()
