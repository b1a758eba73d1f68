"""The record of inputs that rules hold stacks to is of stacks with every setting, and of no team.

`tests/infra/policies` compares it with the resources that stacks declare.
"""

import dataclasses
import json
from collections import defaultdict

from infra.resources import Resource
from infra.rules.closed_world import RECORD
from tests.infra.render import reviewed
from tests.infra.support.stacks import settings_of
from tests.infra.support.variants import ANOTHER_TEAM, RECORDED

NOT_DECLARED = ("network.existing", "subscription.dedicated_cores", "subscription.sizes")
"""Settings that no input of a declared resource follows from."""


def settings_by_key(group, at=""):
    """Each setting with its key; clusters are one setting each, whatever they are called."""
    for field in dataclasses.fields(group):
        value, key = getattr(group, field.name), f"{at}{field.name}"
        if dataclasses.is_dataclass(value):
            yield from settings_by_key(value, f"{key}.")
        elif key == "clusters":
            for cluster in value.values():
                yield from settings_by_key(cluster, "clusters.*.")
        else:
            yield key, repr(value)


def test_the_stacks_of_the_record_have_every_setting_at_two_values():
    values = defaultdict(set)
    for stack, overrides in RECORDED.values():
        for key, value in settings_by_key(settings_of(stack, **overrides)):
            values[key].add(value)
    same = {key for key, of_key in values.items() if len(of_key) == 1}
    assert {key for key in same if not key.startswith(NOT_DECLARED)} == set()


def test_no_recorded_value_is_one_teams():
    recorded = json.dumps(list(json.loads(RECORD.read_text()).values()))
    ours = ("hvd", "westeurope", "00000000-0000", "11111111-1111", "ml-platform", "research")
    theirs = ("abc", ANOTHER_TEAM["location"], "another-team", "/subscriptions/")
    assert [text for text in (*ours, *theirs) if text in recorded] == []


def test_a_value_that_differs_or_is_missing_somewhere_is_recorded_as_such():
    def of(**inputs):
        return Resource("azure-native:a:B", "b", inputs, {}, "")

    rules = [{"port": 1, "name": "x"}, {"port": 1, "name": "y"}]
    stack = [of(same=True, other=1, list=rules, ports=["1"]), of(same=True, other=2, list=[])]
    assert reviewed.record(stack) == {
        "a:B": {
            "list[].port": 1,
            "ports?": ["1"],
            "same": True,
            "list[].name": None,
            "list[]?": None,
            "other": None,
        }
    }
