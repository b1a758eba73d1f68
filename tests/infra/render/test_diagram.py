"""The picture shows what a stack declares: all of it that has a place, and nothing else."""

import dataclasses
import re

import pytest

from infra.render.diagram import main, mermaid, table
from infra.resources import of_kind
from tests import ROOT
from tests.infra.support.stacks import rendered
from tests.infra.support.variants import OPTIONS

VARIANTS = (
    *("as it is", "everything on", "spoke", "everything theirs"),
    *("managed network", "managed network, with a firewall"),
)


def subnets(text):
    """The names of what is in each subnet of a picture."""
    parts = re.findall(r"    subgraph subnet\d+\[\"([\w-]+).*\"\]\n((?:      .*\n)*)", text)
    return {name: re.findall(r'\["([\w-]+)', body) for name, body in parts}


def test_the_page_has_the_picture_and_the_roles_of_the_development_stack(capsys):
    assert main(["dev"]) == 0
    page = (ROOT / "docs" / "platform.md").read_text(encoding="utf-8")
    on_page = page.split("<!-- diagram of dev -->\n")[1].split("<!-- end -->")[0]
    assert on_page == capsys.readouterr().out, "paste the output of `make diagram STACK=dev`"


@pytest.mark.parametrize("name", VARIANTS)
def test_every_arrow_joins_two_boxes_that_are_drawn(name):
    text = mermaid(rendered("dev", **OPTIONS[name]))
    boxes = set(re.findall(r'(\w+)(?:\[|\(\()"', text))
    arrows = re.findall(r"^  (\w+) -->(?:\|.*\|)? (\w+)", text, re.MULTILINE)
    assert arrows
    assert {end for arrow in arrows for end in arrow} <= boxes


def test_machines_and_endpoints_are_in_their_subnets():
    text = mermaid(rendered("dev", **OPTIONS["everything on"]))
    inside = subnets(text)
    assert [name.split("-")[0] for name in inside["snet-training"]] == ["gpu", "gpu", "prep"]
    assert len(inside["snet-build"]) == 1
    assert inside["snet-jump"] == ["hvd-dev-jump"]
    assert inside["AzureBastionSubnet"] == ["hvd-dev-bastion"]
    assert len(inside["snet-endpoints"]) == 7
    assert text.count("|52.174.12.7|") == 2
    assert text.count("|Entra sign-in|") == 1


def test_nodes_in_a_managed_network_are_drawn_with_what_they_reach():
    text = mermaid(rendered("dev", **OPTIONS["managed network, with a firewall"]))
    [nodes] = re.findall(r"  subgraph nodes\[.*\]\n((?:    .*\n)*)", text)
    assert len(re.findall("Compute<br>", nodes)) == 3
    assert text.count("nodes -->|managed endpoint|") == 1
    assert "nodes -->|pypi.org| internet" in text
    assert set(subnets(text)) == {"snet-endpoints"}


def test_existing_services_and_networks_are_named():
    text = mermaid(rendered("dev", **OPTIONS["everything theirs"]))
    assert "existing virtual network" in text
    assert {"nodes", "images", "endpoints"} == set(subnets(text))
    for name in ("theirregistry", "theirvault", "theirdefault", "theirdata"):
        assert text.count(f'["{name}"]') == 1
    assert "|to-firewall| internet" in mermaid(rendered("dev", **OPTIONS["spoke"]))


def test_roles_are_by_identity_and_group():
    rows = table(rendered("dev", **OPTIONS["people"]))
    assert "| hvd-dev-id-training | Storage Blob Data Reader | " in rows
    assert "| group 33333333-3333-3333-3333-333333333332 | AzureML Data Scientist | " in rows


def test_a_name_with_markup_is_shown_without_it():
    resources = [
        dataclasses.replace(one, id=one.id + '"]<script>')
        if one in of_kind(rendered("dev"), "keyvault:Vault")
        else one
        for one in rendered("dev")
    ]
    assert "<script" not in mermaid(resources)


def test_the_order_of_declaration_does_not_matter():
    resources = rendered("dev")
    assert mermaid(resources) == mermaid(resources[::-1])
    assert table(resources) == table(resources[::-1])
