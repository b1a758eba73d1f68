"""What Azure fills in when a body does not have it."""

from rehearsal.control_plane.defaults import Each, Versioned, filled


def test_a_default_is_filled_in_where_nothing_was_sent():
    assert filled({"a": 1}, {"a": 2, "b": {"c": []}}, "") == {"a": 1, "b": {"c": []}}
    assert filled({"b": {"d": 1}}, {"b": {"c": []}}, "") == {"b": {"d": 1, "c": []}}
    assert filled({"a": None}, {"a": 2}, "") == {"a": 2}
    assert filled({}, {"a": None}, "") == {"a": None}
    assert filled({"a": False}, {"a": True}, "") == {"a": False}


def test_a_default_belongs_to_api_versions():
    rows = {"a": (Versioned("old", until="2021-01-01"), Versioned("new"))}
    assert filled({}, rows, "2020-07-01") == {"a": "old"}
    assert filled({}, rows, "2021-01-01") == {"a": "new"}
    assert filled({}, rows, "") == {"a": "new"}
    assert filled({}, {"a": Versioned(1, since="2024")}, "2023-05-01") == {}


def test_each_element_of_a_list_gets_its_defaults():
    rows = {"list": Each({"a": 1}), "other": Each({"a": 1}, absent=[])}
    assert filled({"list": [{}, {"a": 2}]}, rows, "") == {"list": [{"a": 1}, {"a": 2}], "other": []}
    assert filled({}, rows, "") == {"other": []}


def test_what_was_sent_is_not_changed():
    sent = {"a": {"b": [{}]}}
    filled(sent, {"a": {"b": Each({"c": 1})}}, "")
    assert sent == {"a": {"b": [{}]}}
