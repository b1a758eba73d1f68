"""The command: which benchmarks there are, and the options of each."""

from dataclasses import is_dataclass

import pytest

from common.arguments import parse
from common.errors import ConfigError
from tests import ROOT
from tools.benchmarks.__main__ import PROGRAM, main
from tools.benchmarks.commands import BENCHMARKS, GONE
from tools.benchmarks.photos import Options as PhotoOptions
from tools.benchmarks.training.digits import Options as DigitsOptions


@pytest.mark.parametrize("row", BENCHMARKS, ids=lambda row: row.name)
def test_each_benchmark_has_its_options_and_what_runs_it(row):
    options = row.load_options()
    assert is_dataclass(options)
    assert parse(options(), row.name, []) == options()
    assert callable(row.load_run())
    assert f"\n  {row.name} " in PROGRAM.usage


@pytest.mark.parametrize("name", GONE)
def test_a_benchmark_of_a_decided_question_is_refused_with_where_its_rounds_are(name, capsys):
    assert main([name]) == 2
    assert f"error: {name}: version 0.1.0 was the last with it" in capsys.readouterr().err
    assert list((ROOT / "tools" / "benchmarks" / "results").glob(f"{name}*.json"))


def test_what_stands_before_the_options_or_after_dashes_has_no_name():
    photos = parse(PhotoOptions(), "write-photos", ["data/photos", "--count", "5"])
    assert photos == PhotoOptions("data/photos", 5)
    digits = parse(DigitsOptions(), "digits", ["--seeds", "1", "2", "--", "--epochs", "3"])
    assert digits == DigitsOptions(seeds=(1, 2), trainer=("--epochs", "3"))


@pytest.mark.parametrize(
    ("name", "args"), [("write-photos", ["a", "b"]), ("loop", ["here"]), ("loop", ["--", "here"])]
)
def test_an_argument_without_a_place_is_refused(name, args):
    options = PROGRAM.find([name])[0].load_options()
    with pytest.raises(ConfigError, match="unexpected argument"):
        parse(options(), name, args)


def test_mistaken_options_are_named(capsys):
    assert main(["exchange", "--ranks", "1"]) == 2
    assert "--ranks: 1 must be at least 2" in capsys.readouterr().err
    assert main(["train", "--steps", "6"]) == 1
    assert "--steps: give one number for each of --image-sizes" in capsys.readouterr().err
    assert main(["input", "--photos", "--data", "here"]) == 1
    assert "--photos: makes its own data sets" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused_with_what_was_meant(capsys):
    assert main(["timelines"]) == 2
    error = capsys.readouterr().err
    assert "unknown command 'timelines'; did you mean timeline?" in error
    assert "`python -m tools.benchmarks --help` lists the commands" in error


def test_without_a_benchmark_it_shows_which_there_are(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == PROGRAM.usage
