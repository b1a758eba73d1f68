"""Options of the command line become the trainer's configuration."""

import shlex

import pytest

from common.errors import ConfigError
from jobs.errors import SpecError
from jobs.options import DataOptions, ServiceOptions
from jobs.spec import from_options, kinds
from jobs.spec.builder import SoftwareVersions
from jobs.spec.from_options import RunOptions
from jobs.spec.run_key import RunAttempt
from tests.jobs.support.platform import platform
from trainer.presets import parse_train

SOFTWARE = SoftwareVersions("gpu:1", "cpu:1", "code")


def spec(preset, *program, asset="mine:1"):
    options = RunOptions(preset=preset, data=DataOptions(asset=asset))
    config = from_options.read_config(options, program)
    attempt = RunAttempt("run")
    return from_options.make_spec(platform(), options, config, attempt, SOFTWARE)


@pytest.mark.parametrize("preset", ["digits", "images", "synthetic", "imagenet-ndv2"])
def test_a_training_reads_the_data_set_that_is_named_whatever_its_preset(preset):
    made = spec(preset)
    assert made.inputs["data"].uri == "azureml:mine:1"
    words = shlex.split(made.command)
    assert words[words.index("--data.dir") + 1] == kinds.DATA
    read = parse_train(words[words.index("train") + 1 :])
    assert read.data.source == "tfrecords"


def test_who_says_what_follows_anyway_may_say_it():
    assert spec("digits", "--data.source", "tfrecords") == spec("digits")
    assert spec("digits", "--data.source=tfrecords") == spec("digits")


def test_without_a_named_data_set_a_preset_reads_its_own():
    made = spec("digits", asset=None)
    assert made.inputs == {}
    assert "--data.dir" not in made.command


def test_another_source_beside_a_named_data_set_is_refused():
    with pytest.raises(SpecError, match="'synthetic' reads no data from storage"):
        spec("digits", "--data.source", "synthetic")


def test_a_folder_of_this_machine_is_refused():
    with pytest.raises(SpecError, match="'data/mine' is a local folder"):
        spec("digits", "--data.dir", "data/mine")


def test_debug_takes_the_users_own_key_unless_another_is_given(tmp_path):
    plain, debug = RunOptions(), RunOptions(debug="services")
    assert from_options.with_own_key(debug, tmp_path) == debug
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa.pub").write_text("ssh-rsa AAAA me@here\n")
    found = from_options.with_own_key(debug, tmp_path)
    assert found.services.ssh_public_key == "ssh-rsa AAAA me@here"
    assert from_options.with_own_key(plain, tmp_path) == plain
    other = RunOptions(debug="services", services=ServiceOptions(ssh_public_key="ssh-rsa BBBB"))
    assert from_options.with_own_key(other, tmp_path) == other


def test_a_preset_that_is_not_there_is_still_told():
    with pytest.raises(ConfigError, match="imagenet-1000gpu"):
        spec("imagenet-1000gpu")
