"""The command: which benchmarks there are, and what each can be told."""

import importlib
from dataclasses import is_dataclass

import pytest

from benchmarks.__main__ import BENCHMARKS, USAGE, main
from benchmarks.data.photos import Options as PhotoOptions
from benchmarks.training.digits import Options as DigitsOptions
from common.arguments import parse
from common.errors import ConfigError


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_is_a_module_with_its_options(name):
    module = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}")
    assert is_dataclass(module.Options)
    assert parse(module.Options(), name, []) == module.Options()
    assert callable(getattr(module, "run", None) or (module.measure and module.show))
    assert f"\n  {name} " in USAGE


def test_what_stands_before_the_options_or_after_dashes_has_no_name():
    photos = parse(PhotoOptions(), "write-photos", ["data/photos", "--count", "5"])
    assert photos == PhotoOptions("data/photos", 5)
    digits = parse(DigitsOptions(), "digits", ["--seeds", "1", "2", "--", "--epochs", "3"])
    assert digits == DigitsOptions(seeds=(1, 2), trainer=("--epochs", "3"))


@pytest.mark.parametrize(
    ("name", "args"), [("write-photos", ["a", "b"]), ("loop", ["here"]), ("loop", ["--", "here"])]
)
def test_an_argument_without_a_place_is_refused(name, args):
    module = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}")
    with pytest.raises(ConfigError, match="unexpected argument"):
        parse(module.Options(), name, args)


def test_mistaken_options_are_named(capsys):
    assert main(["exchange", "--ranks", "1"]) == 2
    assert "--ranks: 1 must be at least 2" in capsys.readouterr().err
    assert main(["train", "--steps", "6"]) == 1
    assert "--steps: give one number for each of --image-sizes" in capsys.readouterr().err
    assert main(["input", "--photos", "--data", "here"]) == 1
    assert "--photos: makes its own data sets" in capsys.readouterr().err


def test_a_benchmark_that_was_renamed_is_refused_with_its_name_of_today(capsys):
    assert main(["photographs"]) == 2
    assert "photographs: is now called input --photos" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused_with_what_was_meant(capsys):
    assert main(["timelines"]) == 2
    error = capsys.readouterr().err
    assert "unknown command 'timelines'; did you mean timeline?" in error
    assert "`python -m benchmarks --help` lists the commands" in error


def test_without_a_benchmark_it_shows_which_there_are(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == USAGE
