"""The mutation run: changed stacks are caught by the rules that are for them."""

import pytest

from infra.policies import pack
from tests import ROOT
from tests.infra.mutations import run as mutations
from tests.infra.support.stacks import rendered


@pytest.fixture(scope="module")
def outcomes():
    return mutations.run(mutations.STACK, mutations.OVERRIDES)


def test_at_least_97_percent_are_caught_by_the_expected_rule(outcomes):
    assert len(outcomes) >= 150
    assert sum(one.caught for one in outcomes) >= mutations.CAUGHT * len(outcomes)


def test_what_is_not_caught_is_listed_with_its_reason(outcomes):
    missed = {one.mutation.change for one in outcomes if not one.caught}
    assert missed == set(mutations.HARMLESS)


def test_every_rule_has_a_mutation_that_it_catches(outcomes):
    assert {one.mutation.rule for one in outcomes if one.caught} == {rule.name for rule in pack.ALL}


def test_every_kind_that_is_declared_is_mutated(outcomes):
    declared = {
        one.kind
        for one in rendered(mutations.STACK, **mutations.OVERRIDES)
        if one.type[:6] == "azure-"
    }
    assert declared <= {one.mutation.kind for one in outcomes} | {
        "managedidentity:UserAssignedIdentity"  # It has a name, a region and tags.
    }


def test_the_table_in_the_documents_is_the_runs(outcomes):
    page = (ROOT / "docs" / "platform.md").read_text(encoding="utf-8")
    on_page = page.split("<!-- mutations -->\n")[1].split("<!-- end -->")[0]
    assert on_page == mutations.table(outcomes), "paste the output of `make mutations`"


def test_a_stack_that_breaks_a_rule_already_is_refused():
    with pytest.raises(ValueError, match=r"breaks a rule: .*protect option is off"):
        mutations.run("prod", {"protect": False})
