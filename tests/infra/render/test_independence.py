"""Settings in the file of a team's stack change no variant of the tests, and no record."""

import shutil

import pytest
import yaml

from infra import stack_config
from infra.render import snapshot as program
from infra.stack_config import PLACEHOLDERS, configuration
from tests import ROOT
from tests.infra.support.stacks import rendered, settings_of
from tests.infra.support.variants import RECORDED, SPOKE, THEIRS

TEAM = {
    "subscription.id": "99999999-9999-4999-8999-999999999998",
    "subscription.tenant": "99999999-9999-4999-8999-999999999997",
    "prefix": "teams",
    "location": "francecentral",
    "clusters.gpu.max_nodes": 1,
    "storage.soft_delete_retention_days": 21,
    "monitoring.application_insights": True,
}
"""Settings of a team: `make configure` sets the first two."""
TEAMS_OWN = ("99999999-9999-4999-8999", "'teams'", "francecentral")
"""Values of these that no variant has."""


@pytest.fixture
def teams(tmp_path, monkeypatch):
    """The repository of a team, with settings of its own in the files of both stacks."""
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    for stack in ("dev", "prod"):
        name, values = configuration(stack)
        for key, value in TEAM.items():
            values = stack_config.assign(values, key, value)
        text = yaml.safe_dump({"config": {f"{name}:{key}": value for key, value in values.items()}})
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(text)
    monkeypatch.setattr(stack_config, "ROOT", tmp_path)


@pytest.mark.usefixtures("teams")
def test_the_settings_of_no_recorded_stack_follow_the_teams_file():
    for name, (stack, overrides) in RECORDED.items():
        settings = repr(settings_of(stack, **overrides))
        assert [text for text in TEAMS_OWN if text in settings] == [], name


@pytest.mark.usefixtures("teams")
def test_a_stack_of_the_tests_is_rendered_for_the_subscription_of_its_variants():
    # The prefix makes it a stack that no other test has rendered before.
    resources = rendered("dev", **SPOKE, prefix="own")
    in_azure = [resource.id for resource in resources if resource.id.startswith("/subscriptions/")]
    ids = {id_.split("/")[2] for id_ in in_azure}
    assert ids == {PLACEHOLDERS["id"], THEIRS.split("/")[2]}


@pytest.mark.usefixtures("teams")
def test_of_the_snapshots_only_that_of_a_stack_follows_the_file_of_the_stack():
    recorded = {name: (program.FOLDER / f"{name}.json").read_text() for name in program.STACKS}
    declared = {name: program.text(name) for name in ("dev", "managed")}
    assert declared["managed"] == recorded["managed"]
    assert '"location": "francecentral"' in declared["dev"]
