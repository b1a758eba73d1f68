"""A sweep varies options of the trainer, and Azure's SDK takes the file that is printed."""

import json
import shlex
from dataclasses import replace

import pytest

from common.errors import ConfigError
from infra import outputs
from jobs.cli import main
from jobs.commands.submit import SubmitOptions
from jobs.errors import SpecError
from jobs.extras.sweep.sweep import Sweep, read_sweep
from jobs.extras.sweep.trials import one_gpu, trial_options
from jobs.spec import from_options
from tests.jobs.support import samples
from tests.jobs.support.following import ONCE, touched
from tests.jobs.support.platform import platform
from tests.jobs.support.tiny import TRAINED, status, wait_for
from trainer.presets import PRESETS, parse_train

CONFIG = PRESETS["imagenet-ndv2"]
RATES = "optimizer.learning-rate=0.1,0.2,0.4"
TWO = read_sweep([RATES, "--optimizer.momentum=0.9,0.95"], CONFIG)


def test_every_combination_of_values_is_a_trial():
    assert TWO.trials == 6
    assert TWO.space == {
        "optimizer_learning_rate": ("0.1", "0.2", "0.4"),
        "optimizer_momentum": ("0.9", "0.95"),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("optimizer.lerning-rate=1,2", "--optimizer.lerning-rate: is not an option of the trainer"),
        ("name=a,b", "--name: is not an option of the trainer that a sweep can vary"),
        (
            "stages.count=1,2",
            "--stages.count: is not an option of the trainer that a sweep can vary",
        ),
        ("optimizer.learning-rate", "must be OPTION=VALUE,VALUE"),
        ("optimizer.learning-rate=0.1", "must be OPTION=VALUE,VALUE"),
        ("optimizer.learning-rate=0.1,0.1", "with different values"),
        ("optimizer.learning-rate=0.1,x", "--optimizer.learning-rate x: .*'x' is not a number"),
        ("optimizer.warmup-epochs=5,90", "--optimizer.warmup-epochs 90: .* less than --epochs 90"),
    ],
)
def test_values_that_the_trainer_would_refuse_are_refused_at_once(text, why):
    with pytest.raises(ConfigError, match=why):
        read_sweep([text], CONFIG)


def test_trials_are_compared_by_the_first_metric_of_their_task():
    assert read_sweep([RATES], CONFIG).metric == "evaluation/top1"
    assert read_sweep([RATES], PRESETS["scenes"]).metric == "evaluation/mean_iou"


def test_an_option_is_varied_once():
    with pytest.raises(ConfigError, match="is given twice"):
        read_sweep([RATES, RATES], CONFIG)


def test_each_trial_is_a_run_of_its_own_with_the_values_of_the_trial():
    command = TWO.command(samples.training(2, platform()))
    values = {"optimizer_learning_rate": "0.4", "optimizer_momentum": "0.95"}
    for name, value in values.items():
        command = command.replace(f"${{{{search_space.{name}}}}}", value)
    words = shlex.split(
        command.replace("$AZUREML_RUN_ID", "tune_3").replace("${{", "").replace("}}", "")
    )
    config = parse_train(words[4:])
    assert (config.optimizer.learning_rate, config.optimizer.momentum) == (0.4, 0.95)
    assert config.name == "tune_3"
    assert config.runs_dir == "outputs.run"


@pytest.mark.parametrize(
    "spec",
    [samples.check(platform()), samples.tuned(platform(profile="allowlisted", dedicated=True))],
)
def test_what_cannot_be_a_trial_is_refused(spec):
    with pytest.raises(SpecError, match=r"--kind: a sweep|--services"):
        Sweep({"--seed": ("1", "2")}).command(spec)


def test_the_sdk_takes_the_printed_file(tmp_path):
    ml = pytest.importorskip("azure.ai.ml")
    from jobs.extras.sweep.sdk_job import sweep_to_yaml

    code, file = tmp_path / "code", tmp_path / "sweep.yml"
    code.mkdir()
    spec = replace(samples.training(2, platform()), timeout_seconds=7200)
    file.write_text(sweep_to_yaml(spec, code, TWO, 2))
    # `load_job` checks the file by the schema that the command line uses, unknown keys included.
    job = ml.load_job(file)
    sent = job._to_rest_object().as_dict()["properties"]
    assert sent["jobType"] == "Sweep"
    assert sent["objective"] == {"goal": "maximize", "primaryMetric": "evaluation/top1"}
    assert sent["samplingAlgorithm"]["samplingAlgorithmType"] == "Grid"
    limits = sent["limits"]
    assert (limits["maxTotalTrials"], limits["maxConcurrentTrials"]) == (6, 2)
    assert limits["trialTimeout"] == "PT2H"
    assert sent["searchSpace"]["optimizer_momentum"] == ["choice", [["0.9", "0.95"]]]
    trial = sent["trial"]
    assert trial["command"] == TWO.command(spec)
    assert trial["distribution"] == {"distributionType": "Mpi", "processCountPerInstance": 8}
    assert (trial["resources"]["instanceCount"], trial["resources"]["shmSize"]) == (2, "64g")
    assert trial["environmentVariables"] == spec.variables
    assert sent["identity"]["clientId"] == spec.cluster.identity_client_id
    # Its trials do not count as attempts of one run.
    assert not {"run", "attempt"} & set(sent["tags"])


def test_a_sweep_is_printed_with_the_number_of_its_trials(monkeypatch, tmp_path, capsys):
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(outputs.to_dict(platform())))
    monkeypatch.setenv("JOBS_OUTPUTS", str(file))
    sweep = ["sweep", "optimizer.learning-rate=0.1,0.2", "seed=1,2"]
    assert main([*sweep, "--preset", "digits", "--kind", "smoke", "--name", "t"]) == 0
    said = capsys.readouterr()
    assert "4 trials, at most 1 at a time" in said.err
    assert "type: sweep\n" in said.out
    assert "--seed ${{search_space.seed}}" in said.out
    assert main([*sweep, "--kind", "check"]) == 2
    assert "a check has no options to vary" in capsys.readouterr().err


SWEEP = ["sweep", "seed=1,2", "--kind", "smoke", "--submit"]


def test_a_trial_is_named_by_its_values_and_has_an_equal_part_of_the_budget():
    names = [trial.name_in("tune") for trial in TWO.all_trials]
    assert [name.split("-")[1] for name in names] == [str(number) for number in range(1, 7)]
    assert len(set(names)) == 6
    assert TWO.all_trials[1].flags == (
        *("--optimizer.learning-rate", "0.1", "--optimizer.momentum", "0.95"),
    )
    changed = read_sweep([RATES, "--optimizer.momentum=0.9,0.99"], CONFIG)
    assert changed.all_trials[1].name_in("tune") != names[1]
    assert changed.all_trials[0].name_in("tune") == names[0]
    whole = SubmitOptions(name="tune", preset="images-224", budget=60.0)
    part = trial_options(whole, names[0], 6)
    assert (part.name, part.budget, part.no_follow) == (names[0], 10.0, True)
    assert part.preset == "images-224"


def test_trials_take_one_gpu_if_a_cluster_has_such_nodes():
    stack = platform()
    assert one_gpu(stack) is None
    single = replace(stack.clusters["gpu"], gpus_per_node=1)
    assert one_gpu(replace(stack, clusters={**stack.clusters, "single": single})) == "single"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([*SWEEP], "--name: is missing; the keys of all trials begin with it"),
        ([*SWEEP[:-1], "--budget", "9"], "--budget: only the trials of --submit can keep it"),
    ],
)
def test_what_trials_need_is_said(args, why, outputs, capsys):
    assert main(args) == 2
    assert why in capsys.readouterr().err


@pytest.mark.usefixtures("outputs")
def test_trials_are_submitted_once_as_runs_that_are_supervised(live, capsys, monkeypatch):
    make = from_options.make_spec

    def quick(*args):
        spec = make(*args)
        return replace(spec, command=TRAINED % {"run": spec.run})

    monkeypatch.setattr(from_options, "make_spec", quick)
    assert main([*SWEEP, "--name", "tune"]) == 0
    said = capsys.readouterr().out
    names = [trial.name_in("tune") for trial in read_sweep(SWEEP[1:2], CONFIG).all_trials]
    jobs = {name: live.azure.resources.get(f"{live.workspace}/jobs/{name}-r1") for name in names}
    assert all(jobs.values())
    assert "2 trials" in said
    assert f"compare {' '.join(names)}" in said
    assert "supervise" in said
    # Again, there is nothing left to submit.
    assert main([*SWEEP, "--name", "tune", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["trials"]
    assert [trial["trial"] for trial in listed] == names
    assert live.azure.resources.get(f"{live.workspace}/jobs/{names[0]}-r2") is None


@pytest.mark.usefixtures("outputs")
@pytest.mark.long
def test_a_trial_whose_nodes_are_taken_is_continued_and_the_others_are_left(
    live, capsys, monkeypatch
):
    make = from_options.make_spec
    taken, other = (trial.name_in("spot") for trial in read_sweep(SWEEP[1:2], CONFIG).all_trials)

    def quick(*args):
        spec = make(*args)
        wait = f"{ONCE}; then sleep 600; fi; " if spec.run == taken else ""
        return replace(spec, command=(wait + TRAINED) % {"run": spec.run})

    monkeypatch.setattr(from_options, "make_spec", quick)
    sweep = [*SWEEP, "--name", "spot", "--cluster", "gpu", "--resubmit.backoff-seconds", "0"]
    assert main(sweep) == 0
    first, again = (f"{live.workspace}/jobs/{taken}-r{number}" for number in (1, 2))
    wait_for(lambda: touched(live, taken))
    live.azure.admin.preempt(job=first)
    wait_for(lambda: status(live, first) == "Failed")
    wait_for(lambda: status(live, f"{live.workspace}/jobs/{other}-r1") == "Completed")
    # The same command does not take an attempt that was lost for a trial that is missing.
    assert main(sweep) == 0
    assert live.azure.resources.get(again) is None
    assert main(["supervise", "--once"]) == 0
    wait_for(lambda: status(live, again) == "Completed")
    assert live.azure.resources.get(f"{live.workspace}/jobs/{other}-r2") is None
    capsys.readouterr()
    assert main(["compare", taken, other, "--json"]) == 0
    assert taken in capsys.readouterr().out
