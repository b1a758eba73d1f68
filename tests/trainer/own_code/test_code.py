"""A run is used with the code that built its network, whatever has become of the source since."""

import json
import shutil
import sys
from dataclasses import replace
from itertools import count

import pytest
import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from tests.trainer.support.command import TINY, final_state
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.made_run import make_run
from tests.trainer.support.scenarios import tiny_config
from trainer import cli
from trainer.config import ModelConfig
from trainer.errors import CheckpointError
from trainer.export.exporter import export_run
from trainer.export.layout import exported_model
from trainer.export.options import SavedModelOptions
from trainer.model.build import build_model
from trainer.model.own_graph import graph_digest
from trainer.own_code.code import OwnCode, choose_code, different_ranks
from trainer.training.evaluator import evaluate_run
from trainer.training.options import EvaluateOptions
from trainer.training.setup import set_up

NET = """
import tf_keras as keras
from tf_keras import layers
from {package}.parts import ACTIVATION


def build(image_size, outputs):
    image = keras.Input((image_size, image_size, 3))
    x = layers.Activation(ACTIVATION)(layers.Flatten()(image))
    return keras.Model(image, layers.Dense(outputs, dtype="float32", name="logits")(x))
"""
NUMBERS = count()


class Source:
    """A package with a builder, where Python finds it."""

    def __init__(self, folder):
        self.package = f"mine{next(NUMBERS)}"
        self.builder = f"{self.package}.net:build"
        self.folder = folder / self.package
        self.folder.mkdir(parents=True)
        self.write("net.py", NET.format(package=self.package))
        self.write("parts.py", 'ACTIVATION = "relu"\n')

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def change(self):
        self.write("parts.py", 'ACTIVATION = "softplus"\n')


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "source"))
    # TensorFlow's threads are set once in a process.
    monkeypatch.setattr("trainer.training.evaluator.set_up_device", lambda *_: None)
    finders = list(sys.meta_path)
    yield Source(tmp_path / "source")
    sys.meta_path[:] = finders


@pytest.fixture
def run(source, digits_folder, tmp_path):
    """The folder of a run of a few steps of that network."""
    config = tiny_config(str(digits_folder), name="run")
    config = replace(config, model=ModelConfig(builder=source.builder, image_size=8))
    folder, _, _ = make_run(tmp_path / "runs" / "run", config, {"top1": 0.5, "loss": 1.0})
    return folder


def evaluate(run, **options):
    return evaluate_run(EvaluateOptions(run=str(run.path), **options))


def export(run, **options):
    folder = export_run(SavedModelOptions(run=str(run.path), **options))
    return folder, json.loads((folder / "export.json").read_text())


def probabilities(folder):
    pixels = tf.saved_model.load(str(folder / "saved_model")).signatures["pixels"]
    image = tf.reshape(tf.range(192, dtype=tf.int32), [1, 8, 8, 3])
    return pixels(pixels=tf.cast(image, tf.uint8))["probabilities"].numpy().tolist()


# 1. Each command after a change.


def test_an_evaluation_is_of_the_code_that_the_run_keeps(run, source, capsys):
    before = evaluate(run)
    assert "changed" not in capsys.readouterr().err
    source.change()
    assert evaluate(run) == before
    said = capsys.readouterr().err
    assert f"changed: {source.package}/parts.py: the network is built from the code" in said
    assert str(run.path / "code") in said
    assert evaluate(run, accept_changed_code=True) != before
    assert "parts.py: used as now, not as before (this changes" in capsys.readouterr().err
    shutil.rmtree(source.folder)
    assert evaluate(run) == before


def test_an_export_states_the_result_of_the_network_that_it_contains(run, source, capsys):
    folder, facts = export(run)
    before = probabilities(folder)
    assert (facts["evaluation"]["top1"], facts["evaluated_in"]) == (0.5, "float32")
    source.change()
    folder, facts = export(run)
    assert probabilities(folder) == before
    assert (facts["evaluation"]["top1"], facts["changed_code"]) == (0.5, False)
    capsys.readouterr()
    exported_model(str(run.path), None)
    assert capsys.readouterr().err == ""

    folder, facts = export(run, accept_changed_code=True)
    assert probabilities(folder) != before
    assert (facts["evaluation"], facts["evaluated_in"]) == (None, None)
    capsys.readouterr()
    # As `predict`, `score` and `serve` do first.
    exported_model(str(run.path), None)
    assert "its network is not the one that the run trained" in capsys.readouterr().err


def test_a_run_continues_with_its_code_and_with_changed_code_if_told_to(run, source):
    config, name = run.read().config, run.path.name
    before = run.read().own_network
    source.change()
    setup = set_up(config, 1, name)
    assert setup.record.own_network == before
    (note,) = setup.changes
    assert note.startswith(f"{source.package}/parts.py: the network is built from the code")
    assert setup.code.folder == run.path / "code" / before.digest

    setup = set_up(replace(config, accept_changed_code=True), 1, name)
    (note,) = setup.changes
    assert note.startswith(f"{source.package}/parts.py: used as now, not as before")
    setup.code.use()
    setup = setup.built(build_model(config.model, 10).graph_digest)
    run.create(setup.record)
    setup.code.keep(run.path)
    # The next attempt is compared to the code of this one, and its checkpoint keeps the code that
    # wrote it.
    assert set_up(config, 1, name).changes == []
    now = run.read().own_network
    assert before.graph != now.graph
    assert {path.name for path in (run.path / "code").iterdir()} == {before.digest, now.digest}


# 2. When a command stops.


def test_a_command_stops_if_the_run_has_lost_what_it_kept(run, source, capsys):
    source.change()
    (run.path / "code" / run.read().own_network.digest / source.package / "parts.py").unlink()
    assert cli.main(["evaluate", "--run", str(run.path)]) == 4
    said = capsys.readouterr().err
    assert f"{source.package}/parts.py changed since this run was built from it" in said
    assert "is missing or damaged" in said
    with pytest.raises(CheckpointError, match="missing or damaged"):
        set_up(run.read().config, 1, run.path.name)
    assert cli.main(["evaluate", "--run", str(run.path), "--accept-changed-code"]) == 0


def test_a_command_stops_if_the_same_files_build_another_network(
    source, digits_folder, tmp_path, monkeypatch
):
    source.write("parts.py", 'import os\nACTIVATION = os.environ["ACTIVATION"]\n')
    monkeypatch.setenv("ACTIVATION", "relu")
    config = tiny_config(str(digits_folder), name="run")
    config = replace(config, model=ModelConfig(builder=source.builder, image_size=8))
    run, _, _ = make_run(tmp_path / "runs" / "run", config)
    monkeypatch.setenv("ACTIVATION", "softplus")
    for name in [name for name in sys.modules if name.startswith(source.package)]:
        del sys.modules[name]
    with pytest.raises(CheckpointError, match="although its files are the same"):
        evaluate(run)
    _, facts = export(run, accept_changed_code=True)
    assert (facts["evaluation"], facts["changed_code"]) == (None, True)


def test_a_new_run_without_its_package_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no package or module nowhere"):
        choose_code("nowhere.small:build", tmp_path, None, accept=False)


def test_ranks_with_other_files_are_named():
    one, other = OwnCode({"a.py": "1", "b.py": "2"}), OwnCode({"a.py": "1", "b.py": "3"})
    codes = [one.to_json(), one.to_json(), other.to_json()]
    assert different_ranks("a:build", codes[:2]) is None
    assert "b.py of rank 2 differs from that of rank 0" in different_ranks("a:build", codes)


# 3. Files that do not count as changed.


def test_another_file_in_the_package_is_no_change(run, source):
    source.write("next_experiment.py", "later = 1\n")
    assert set_up(run.read().config, 1, run.path.name).changes == []


def test_a_run_of_an_earlier_version_is_read_as_before(run, source, capsys):
    before = evaluate(run)
    stored = json.loads((run.path / "config.json").read_text())
    del stored["own_network"]
    (run.path / "config.json").write_text(json.dumps(stored))
    newest = run.checkpoints.newest()
    meta = {key: newest.meta[key] for key in newest.meta if key != "own_network"}
    run.checkpoints.save(newest.step + 1, newest.load(), meta)
    assert evaluate(run) == before
    assert "changed" not in capsys.readouterr().err
    assert set_up(run.read().config, 1, run.path.name).changes == []


# 4. The digest of a network.


def test_the_digest_is_of_layers_options_connections_and_shapes_but_not_of_the_precision():
    def digest(name, precision="float32", seed=0, size=8):
        builder = f"tests.trainer.support.builders:{name}"
        config = ModelConfig(builder=builder, image_size=size)
        return build_model(config, 10, precision, seed, trial=False).graph_digest

    assert digest("nested") == digest("nested", seed=1) == digest("nested", "mixed_float16")
    names = ("good", "nested", "attention", "subclassed", "plain_lambda", "other_activation")
    different = {digest(name) for name in names}
    assert len({*different, digest("attention", size=16)}) == len(names) + 1


def test_the_digest_is_of_connections():
    def model(*, crossed):
        image = keras.Input((4,), name="image")
        one, two = (keras.layers.Dense(4, name=name)(image) for name in ("one", "two"))
        pair = [two, one] if crossed else [one, two]
        return keras.Model(image, keras.layers.Subtract(name="minus")(pair))

    assert graph_digest(model(crossed=False)) != graph_digest(model(crossed=True))


# 5. A run that is stopped and continued.


@pytest.mark.long
def test_a_run_whose_builder_changed_ends_with_the_bits_of_one_whose_did_not(workplace):
    source = Source(workplace)
    options = [*TINY, "--model.builder", source.builder, "--evaluation.every-epochs", "0"]

    def train(name, *more):
        args = ("train", *options, "--name", name, *more)
        there = [{"PYTHONPATH": str(workplace)}] * 2
        ended = fork_trainer(*args, cwd=workplace, small=False, env=there)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    train("whole")
    train("parts", "--max-steps", "9")
    shutil.copytree(workplace / "runs" / "parts", workplace / "runs" / "accepted")
    source.change()
    told = f"changed: {source.package}/parts.py: "
    assert f"{told}the network is built from the code that the run keeps" in train("parts")
    assert f"{told}used as now, not as before" in train("accepted", "--accept-changed-code")
    runs = workplace / "runs"
    whole = final_state(runs / "whole")
    assert final_state(runs / "parts") == whole
    accepted = final_state(runs / "accepted")
    assert accepted.keys() == whole.keys()
    assert accepted != whole
