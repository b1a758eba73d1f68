"""Typed fields are read by the same rules from every source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest

from common import fields
from common.annotations import Bounds, Formerly, Pattern
from common.errors import ConfigError


@dataclass(frozen=True)
class Disk:
    size_gb: Annotated[int, Bounds(at_least=1, at_most=64), Formerly("space")] = 8
    kind: Literal["hdd", "ssd"] = "ssd"


@dataclass(frozen=True)
class Machine:
    name: Annotated[str, Pattern("[a-z]+", "lower-case letters")]
    speed: Annotated[float, Bounds(above=0)] = 1.0
    note: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    points: tuple[tuple[float, int], ...] = ()
    disk: Disk = field(default_factory=Disk)
    more_disks: Mapping[str, Disk] = field(default_factory=lambda: {"one": Disk(1), "two": Disk(2)})

    def __post_init__(self) -> None:
        if self.note == self.name:
            raise ConfigError(["note: is the name"])


WHOLE = {
    "name": "box",
    "speed": 2,
    "note": "fast",
    "labels": {"room": "one"},
    "points": [[0.5, 1], [1, 2.0]],
    "disk": {"size_gb": 16.0, "kind": "hdd"},
}


def test_what_is_read_is_what_was_written():
    machine = fields.from_dict(Machine, WHOLE)
    assert machine.disk == Disk(16, "hdd")
    assert machine.points == ((0.5, 1), (1.0, 2))
    assert fields.from_dict(Machine, fields.to_dict(machine)) == machine


def test_missing_keys_take_their_defaults():
    assert fields.from_dict(Machine, {"name": "box"}) == Machine("box")


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("name", "Box", "name: 'Box' must be lower-case letters"),
        ("speed", 0, "speed: 0.0 must be above 0"),
        ("speed", float("nan"), "speed: nan is not a number"),
        ("speed", True, "speed: True is not a number"),
        ("note", 3, "note: 3 is not a text; write it in quotes"),
        ("labels", {"room": 1}, "labels.room: 1 is not a text; write it in quotes"),
        ("points", [[1]], "points[0]: [1] is not a list of a number and a whole number"),
        ("disk", {"size_gb": 2.5}, "disk.size_gb: 2.5 is not a whole number"),
        ("disk", {"size_gb": 65}, "disk.size_gb: 65 must be from 1 to 64"),
        ("disk", {"kind": "tape"}, "disk.kind: 'tape' is not one of hdd, ssd"),
        ("disk", 3, "disk: 3 is not a group of keys"),
        ("dsik", {}, "dsik: unknown key; did you mean disk?"),
        ("disk", {"space": 4}, "disk.space: is now called disk.size_gb"),
        ("disk", {"knid": "hdd"}, "disk.knid: unknown key; did you mean disk.kind?"),
        ("more_disks", {"two": {"size_gb": 65}}, "more_disks.two.size_gb: 65 must be from 1 to 64"),
        ("more_disks", {"two": 2}, "more_disks.two: 2 is not a group of keys"),
        (
            "more_disks",
            {"tow": None},
            "more_disks.tow: None is not a group of keys; remove the key, or give it a value",
        ),
        ("disk", {"x": 1}, "disk.x: unknown key; known here: disk.size_gb, disk.kind"),
    ],
)
def test_a_problem_names_the_key_the_value_and_what_is_allowed(key, value, problem):
    reading = fields.read(Machine, {**WHOLE, key: value})
    assert reading.problems == (problem,)
    with pytest.raises(ConfigError) as caught:
        fields.from_dict(Machine, {**WHOLE, key: value})
    assert caught.value.problems == (problem,)


def test_a_text_of_an_option_has_the_form_that_its_field_wants():
    @dataclass(frozen=True)
    class Options:
        name: Annotated[str | None, Pattern("[a-z]+", "lower-case letters")] = None

    assert fields.problems(Options()) == []
    assert fields.problems(Options("box")) == []
    assert fields.problems(Options("")) == ["--name: '' must be lower-case letters"]


@pytest.mark.parametrize("null", [None, "null"])
def test_a_named_group_completes_that_of_the_default_and_null_removes_it(null):
    given = {"two": {"kind": "hdd"}, "one": null, "three": {"size_gb": 3}}
    machine = fields.from_dict(Machine, {"name": "box", "more_disks": given})
    assert machine.more_disks == {"two": Disk(2, "hdd"), "three": Disk(3)}


def test_a_named_group_is_unsound_apart_from_the_others():
    given = {"two": {"kind": "tape"}, "three": {"size_gb": 3}}
    reading = fields.read(Machine, {"name": "box", "more_disks": given})
    assert reading.unsound == {"more_disks.two.kind"}
    assert reading.value.more_disks == {"one": Disk(1), "two": Disk(2), "three": Disk(3)}
    assert not reading.is_sound("more_disks")
    assert reading.is_sound("more_disks.two.size_gb")


def test_a_missing_key_is_told_with_what_it_takes():
    reading = fields.read(Machine, {})
    assert reading.problems == ("name: is missing; give lower-case letters",)
    assert not reading.is_sound("name")
    assert reading.is_sound("disk")


def test_a_group_is_unsound_by_any_of_its_keys():
    reading = fields.read(Machine, {"name": "box", "disk": {"size_gb": 0}})
    assert not reading.is_sound("disk")
    assert not reading.is_sound("disk.size_gb")
    assert reading.is_sound("disk.kind")
    assert reading.value.disk == Disk()


def test_a_dataclass_that_refuses_itself_is_told_if_nothing_else_is_wrong():
    with pytest.raises(ConfigError, match="note: is the name"):
        fields.from_dict(Machine, {"name": "box", "note": "box"})
    with pytest.raises(ConfigError) as caught:
        fields.from_dict(Machine, {"name": "box", "note": "box", "speed": 0})
    assert caught.value.problems == ("speed: 0.0 must be above 0",)


def test_leaves_are_options_in_the_order_of_declaration():
    flags = [leaf.flag for leaf in fields.leaves(Machine)]
    assert flags == [
        *("--name", "--speed", "--note", "--labels", "--points"),
        *("--disk.size-gb", "--disk.kind", "--more-disks"),
    ]


def test_a_tree_that_exists_is_checked_by_its_options():
    assert fields.problems(Disk(size_gb=0, kind="tape")) == [
        "--size-gb: 0 must be from 1 to 64",
        "--kind: 'tape' is not one of hdd, ssd",
    ]
    assert fields.problems(Disk()) == []
