"""The pages on the platform say what the code does: rules, costs, and what a subscription needs."""

import re

import pytest

from infra.render import costs
from tests import ROOT
from tests.infra.support.stacks import rendered

PAGE = (ROOT / "docs" / "platform.md").read_text(encoding="utf-8")
DEPLOYING = (ROOT / "docs" / "deploy-the-platform.md").read_text(encoding="utf-8")


def test_the_table_of_costs_is_what_the_command_prints():
    book = costs.read()
    printed = costs.table(costs.rows(rendered("dev"), book), book)
    on_page = PAGE.split("<!-- costs of dev -->\n")[1].split("<!-- end -->")[0]
    assert on_page == printed, "paste the output of `.venv/bin/python -m infra.render.costs dev`"


def test_the_table_of_reading_is_what_the_command_prints():
    on_page = PAGE.split("<!-- reading -->\n")[1].split("<!-- end -->")[0]
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
    files = [*infra.glob("*settings.py"), *infra.glob("*/leaf.py")]
    settings = "".join(file.read_text(encoding="utf-8") for file in files)
    named = re.findall(r"`(network|subscription|monitoring|budget|access)\.([a-z_]+)`", page)
    assert named
    assert [name for _, name in named if f"    {name}:" not in settings] == []
    for path in re.findall(r"`((?:infra|tests|docs)/[\w./-]+)`", page):
        assert (ROOT / path).exists(), path
