"""A command line is parsed into a frozen dataclass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest

from common.annotations import Alone, Bounds, Formerly, Positional
from common.arguments import parse, unreadable
from common.errors import ConfigError
from common.fields import to_flags, with_current_keys


@dataclass(frozen=True)
class Options:
    """Options of a command."""

    retry_timeout: Annotated[float, Bounds(above=0), Formerly("patience")] = 1.0
    """How long to retry."""


def test_a_renamed_option_is_refused_with_its_name_of_today():
    assert parse(Options(), "wait", ["--retry-timeout", "2"]) == Options(2.0)
    with pytest.raises(ConfigError) as caught:
        parse(Options(), "wait", ["--patience", "2"])
    assert caught.value.problems == ("--patience: is now called --retry-timeout",)


@dataclass(frozen=True)
class Trimmed:
    """Options that were more."""

    GONE: ClassVar[Mapping[str, str]] = {"fast": "use --slow", "old_group": "use nothing"}

    slow: bool = False
    """Take time."""


def test_an_option_that_is_gone_is_refused_with_what_to_use_and_left_out_of_files():
    with pytest.raises(ConfigError) as caught:
        parse(Trimmed(), "wait", ["--fast", "1", "--old-group.size=2", "--old"])
    gone = ("--fast: use --slow", "--old-group.size: use nothing")
    assert caught.value.problems == (*gone, "--old: unknown option")
    stored = {"slow": True, "fast": 1, "old_group": {"size": 2}}
    assert with_current_keys(Trimmed, stored) == {"slow": True}


@dataclass(frozen=True)
class Copy:
    """Copy files to
    a folder.
    """

    target: Annotated[str, Positional("TARGET")] = ""
    """Folder to
    write."""

    files: Annotated[tuple[str, ...], Positional("FILE...")] = ()
    """Files to copy."""

    deep: bool = False
    """Also copy folders."""

    threads: int = 1
    """Threads."""

    sizes: tuple[int, ...] = ()
    """Sizes."""


COPIED = Copy("t", ("a", "b"), deep=True, threads=2)


@pytest.mark.parametrize(
    "line",
    [
        "t a b --deep --threads 2",
        "--deep t --threads=2 a b",
        "--threads 2 --deep True t a b",
        "t a --deep=True b --threads 2",
        "t --deep --threads 2 -- a b",
    ],
)
def test_positional_arguments_may_stand_anywhere_among_options(line):
    assert parse(Copy(), "copy", line.split()) == COPIED


def test_after_two_dashes_every_argument_is_positional():
    args = ["--sizes", "1", "2", "--", "t", "--deep", "-h", "--nosuch"]
    assert parse(Copy(), "copy", args) == Copy("t", ("--deep", "-h", "--nosuch"), sizes=(1, 2))


def test_a_list_may_be_empty():
    assert parse(Copy(sizes=(1, 2)), "copy", ["--sizes", "--deep", "t"]) == Copy("t", deep=True)


def test_a_switch_takes_only_true_or_false_as_its_value():
    assert parse(Copy(), "copy", ["--deep", "t"]) == Copy("t", deep=True)
    assert parse(Copy(deep=True), "copy", ["--deep", "False", "t"]) == Copy("t", deep=False)


@dataclass(frozen=True)
class Mode:
    """A mode."""

    mode: Annotated[Literal["off", "on", "slow"], Alone("on")] = "off"
    """Mode."""

    name: Annotated[str, Positional("NAME")] = ""
    """Name."""


@pytest.mark.parametrize(
    ("line", "mode", "name"),
    [
        ("", "off", ""),
        ("--mode", "on", ""),
        ("--mode slow x", "slow", "x"),
        ("--mode x", "on", "x"),
    ],
)
def test_a_choice_that_stands_alone_has_its_own_value(line, mode, name):
    assert parse(Mode(), "do", line.split()) == Mode(mode, name)


def test_all_problems_of_a_command_line_are_listed_at_once():
    args = ["t", "--thread", "4", "-x", "--deep=maybe", "--sizes", "1", "x", "--threads"]
    with pytest.raises(ConfigError) as caught:
        parse(Copy(), "copy", args)
    assert caught.value.problems == (
        "--thread: unknown option; did you mean --threads?",
        "-x: unexpected argument",
        "--threads: needs a value",
        "--deep: 'maybe' is not true or false",
        "--sizes: 'x' is not a list, each a whole number",
    )


def test_an_argument_too_many_is_refused():
    with pytest.raises(ConfigError, match="later: unexpected argument"):
        parse(Options(), "wait", ["later"])


@dataclass(frozen=True)
class Shown:
    """Where results are shown."""

    every_seconds: float = 1.0
    """How often."""


@dataclass(frozen=True)
class OfRun:
    """Options of a command for a run."""

    run: str = "runs/latest"
    """Folder of the run."""

    log: Shown = Shown()
    """How results are shown."""


def test_a_run_without_its_option_and_a_group_are_refused_with_what_was_meant():
    with pytest.raises(ConfigError) as caught:
        parse(OfRun(), "evaluate", ["runs/first"])
    assert caught.value.problems == (
        "runs/first: unexpected argument; did you mean --run runs/first?",
    )
    with pytest.raises(ConfigError) as caught:
        parse(OfRun(), "evaluate", ["--log", "3"])
    assert caught.value.problems == ("--log: is a group; known in it: --log.every-seconds",)


def test_what_is_unreadable_is_told_whatever_the_other_options_are():
    args = ["--thread", "4", "--threads", "--deep=maybe", "--sizes", "1", "2"]
    assert unreadable(Copy, args) == [
        "--thread: unknown option; did you mean --threads?",
        "--threads: needs a value",
        "--deep: 'maybe' is not true or false",
    ]
    # The command needs arguments that are not here.
    assert unreadable(Copy, ["--sizes", "1", "2"]) == []


def test_the_help_shows_arguments_and_options_in_paragraphs(capsys):
    with pytest.raises(SystemExit) as end:
        parse(Copy(), "copy", ["t", "--nosuch", "--help"], program="python -m tools")
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: python -m tools copy [-h] TARGET FILE... [--deep True|False]")
    assert "Copy files to a folder." in text
    for line in ("TARGET", "Folder to write.", "FILE...", "Also copy folders. (default: False)"):
        assert line in text


@dataclass(frozen=True)
class Work:
    """Do work."""

    with_: Literal["hands", "machines"] = "hands"
    """What does it."""


def test_an_option_may_be_called_as_a_keyword_of_python(capsys):
    assert parse(Work(), "work", ["--with", "machines"]) == Work("machines")
    assert to_flags(Work("machines"), Work()) == ["--with", "machines"]
    with pytest.raises(ConfigError, match="--with: 'feet' is not one of hands, machines"):
        parse(Work(), "work", ["--with", "feet"])
    with pytest.raises(SystemExit):
        parse(Work(), "work", ["--help"])
    assert "--with hands|machines" in capsys.readouterr().out
