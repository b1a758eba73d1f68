"""The pages on the platform agree with the code: rules, costs, and prerequisites of a
subscription."""

import json
import re

import pytest

from infra.policies import pack
from infra.render import costs
from rehearsal.cycle.steps import STEPS
from tests import ROOT
from tests.infra.support.stacks import rendered
from tests.infra.support.variants import OPTIONS

PAGE = (ROOT / "docs" / "platform.md").read_text(encoding="utf-8")
COSTS = (ROOT / "docs" / "reference" / "costs.md").read_text(encoding="utf-8")
DEPLOYING = (ROOT / "docs" / "deploy-the-platform.md").read_text(encoding="utf-8")


def test_the_table_of_costs_is_what_the_command_prints():
    book = costs.read()
    printed = costs.table(costs.rows(rendered("dev"), book), book)
    on_page = COSTS.split("<!-- costs of dev -->\n")[1].split("<!-- end -->")[0]
    assert on_page == printed, "paste the output of `.venv/bin/python -m infra.render.costs dev`"


def test_the_rules_about_several_resources_are_those_that_the_page_names():
    sentence = PAGE.split("the rules about several resources (")[1].split(")")[0]
    on_page = re.findall("`([a-z-]+)`", sentence)
    assert on_page == sorted(rule.name for rule in pack.ALL if rule.of_stack is not None)


def test_the_table_of_reading_is_what_the_command_prints():
    on_page = COSTS.split("<!-- reading -->\n")[1].split("<!-- end -->")[0]
    assert on_page == costs.reading(costs.read())


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_every_provider_that_a_stack_needs_is_among_those_to_register(stack):
    needed = {
        provider
        for one in rendered(stack)
        for provider in re.findall(r"/providers/Microsoft\.(\w+)/", one.id)
    }
    listed = set(DEPLOYING.split("for provider in ")[1].split("; do")[0].replace("\\", " ").split())
    assert needed <= listed


@pytest.mark.parametrize("page", [PAGE, DEPLOYING], ids=["platform", "deploying"])
def test_every_file_and_setting_that_a_page_names_exists(page):
    infra = ROOT / "infra"
    files = [*infra.glob("*settings.py"), *infra.glob("extras/*/leaf.py")]
    settings = "".join(file.read_text(encoding="utf-8") for file in files)
    named = re.findall(r"`(network|subscription|monitoring|budget|access)\.([a-z_]+)`", page)
    assert named
    assert [name for _, name in named if f"    {name}:" not in settings] == []
    for path in re.findall(r"`((?:infra|tests|docs)/[\w./-]+)`", page):
        assert (ROOT / path).exists(), path


def test_the_page_for_a_review_names_rules_files_and_settings_that_exist():
    review = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    rows = review.split("|---|---|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert {len(row) for row in cells} == {5}
    known = {rule.name for rule in pack.ALL}
    rules = {name for row in cells for name in re.findall(r"`([\w-]+)`", row[2])}
    assert rules - known == {"preview", "up"}
    for row in cells:
        for path in re.findall(r"`((?:components|catalog|extras|policies)/[\w./]*)`", row[1]):
            assert (ROOT / "infra" / path).exists(), path
    reference = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    groups = r"network|storage|registry|vault|monitoring|access|people|encryption|managed_network"
    for name in re.findall(rf"`((?:{groups})\.[a-z_]+)`", review):
        assert f"| `{name}` |" in reference or f"`{name}." in reference, name


def test_the_readme_has_the_numbers_of_the_code_and_begins_with_few_lines():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    book = costs.read()
    total, jump = (
        costs.total(costs.rows(rendered("dev", **options), book))[0]
        for options in ({}, OPTIONS["jump machine"])
    )
    # The price of a Basic Bastion, the cheaper tier, which the table of costs names.
    [bastion] = re.findall(r"more than the (\S+) USD a month of a Basic", str(book.prices))
    recorded = json.loads((ROOT / "tools" / "benchmarks" / "results" / "chaos.json").read_text())
    failing = (ROOT / "docs" / "when-something-fails.md").read_text(encoding="utf-8")
    others = failing.split("| seed | attempts")[1].split("\n\n")[0].count("\n| ")
    signals = len(recorded["recoveries"]) * (1 + others)
    for number in (
        f"[at least {int(total)} USD a month]",
        f"at least {int(jump)} USD together",
        f"at {bastion} USD: expect more than {int(jump + float(bastion)) // 10 * 10} USD",
        f"[{len(pack.ALL)} rules]",
        f"[{signals} signals in {1 + others} runs]",
        f"in {len(STEPS)} steps",
    ):
        assert number in re.sub(r"\n *", " ", readme)
    before, _, _ = readme.partition("\n    git clone")
    assert before.count("\n") <= 40
    assert readme.count("\n    ") == 3
