"""The values that the record of a rehearsal may have."""

import json

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.page.record import from_json, to_json
from tests.rehearsal.support import recorded_cycles
from tests.rehearsal.support.parsed_page import EMPTY


@pytest.mark.parametrize("cycle", [recorded_cycles.whole(), recorded_cycles.failed(), EMPTY])
def test_a_record_is_the_same_after_json(cycle):
    assert from_json(to_json(cycle)) == cycle


def edited(change):
    data = json.loads(to_json(recorded_cycles.whole()))
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d["steps"][1].update(colour="red"), r"steps\[1\]\.colour: unknown key"),
        (lambda d: d["attempts"][0].pop("job"), r"attempts\[0\]\.job: is missing"),
        (lambda d: d["kinds"][0].update(service=[]), "service: .* is not one of resource manager"),
    ],
)
def test_a_record_with_wrong_values_is_refused_by_their_keys(change, complaint):
    with pytest.raises(RehearsalError, match=complaint):
        from_json(edited(change))


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_what_is_no_record_is_refused(content):
    with pytest.raises(RehearsalError, match="the record"):
        from_json(content)
