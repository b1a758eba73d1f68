"""The mutation run: every change of a stack is caught, or is listed as harmless with its reason."""

import ast
import re
from dataclasses import replace

import pytest

from infra.policies import pack
from infra.resources import ASSIGNMENT, NETWORK
from tests import ROOT
from tests.infra.mutations import run as mutations
from tests.infra.mutations.survivors import HARMLESS
from tests.infra.support.stacks import rendered, settings_of
from tests.infra.support.variants import OPTIONS


@pytest.fixture(scope="module")
def outcomes():
    stack, overrides = mutations.STACK, mutations.OVERRIDES
    return mutations.hold(rendered(stack, **overrides), settings_of(stack, **overrides))


@pytest.mark.long
def test_what_no_rule_catches_is_listed_with_its_reason(outcomes):
    assert [one.text for one in outcomes if one.rule is None and one.reason is None] == []


@pytest.mark.long
def test_no_reason_is_listed_for_nothing(outcomes):
    missed = [one.text for one in outcomes if one.rule is None]
    assert [row for row in HARMLESS if not any(re.fullmatch(row, text) for text in missed)] == []


@pytest.mark.long
def test_each_input_and_each_resource_is_mutated(outcomes):
    changed = {one.mutation.change.partition(":")[0] for one in outcomes}
    stack = rendered(mutations.STACK, **mutations.OVERRIDES)
    assert {one.name for one in stack if one.type[:6] == "azure-"} <= changed


OF_NODES = {
    f"machinelearningservices:{kind}"
    for kind in ("Workspace", "Compute", "ManagedNetworkSettingsRule")
}


@pytest.mark.parametrize(
    ("option", "kinds"),
    [
        ("everything theirs", ()),
        ("managed network, with a firewall", {*OF_NODES, ASSIGNMENT}),
        ("peered", {NETWORK}),
        ("registry in two regions", {"containerregistry:Replication"}),
        ("spoke", {NETWORK}),
    ],
)
def test_other_options_are_held_to_the_rules_as_well(option, kinds):
    overrides = OPTIONS[option]
    found = mutations.hold(rendered("dev", **overrides), settings_of("dev", **overrides), kinds)
    assert [one.text for one in found if one.rule is None and one.reason is None] == []


@pytest.mark.long
def test_the_table_in_the_documents_is_the_runs(outcomes):
    page = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
    on_page = page.split("<!-- mutations -->\n")[1].split("<!-- end -->")[0]
    assert on_page == mutations.table(outcomes), "paste the output of `make -C tools mutations`"


def test_a_stack_that_breaks_a_rule_already_is_refused():
    stack = [replace(one, options={}) for one in rendered("prod")]
    with pytest.raises(ValueError, match="breaks a rule"):
        mutations.hold(stack, settings_of("prod"))


def test_the_rules_import_nothing_that_declares_the_resources():
    own = {
        "infra.rules",
        "infra.policies",
        "infra.resources",
        "infra.settings",
        "infra.leaves",
        "infra.leaf",
    }
    # Ids are parsed and names read in one way; neither says what is allowed.
    parsing = {"infra.catalog.resource_ids", "infra.naming", "infra.stack_config"}
    files = [*ROOT.glob("infra/rules/*.py"), *ROOT.glob("infra/extras/*/security.py")]
    files.append(ROOT / "infra" / "policies" / "pack.py")
    assert len(files) > len(pack.ALL) / 4
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {
            node.module: {alias.name for alias in node.names}
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("infra.")
        }
        extra = f"infra.extras.{file.parent.name}."
        for module, names in imported.items():
            known = any(f"{module}.".startswith(f"{one}.") for one in own | parsing)
            spelled = {f"{module}.{name}" for name in names}
            # Of an extra, its settings; the queries of alerts are in the snapshots as well.
            data = module in {f"{extra}leaf", "infra.extras.alerts.alert_rules"}
            assert known or data or spelled <= parsing, f"{file.name} imports {module}"
