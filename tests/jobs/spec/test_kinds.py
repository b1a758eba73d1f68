"""Jobs are built from a stack's outputs, and invalid ones are refused."""

import json
import shlex
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common import fields
from infra import outputs
from jobs.errors import SpecError
from jobs.options import DataOptions, JobOptions, PreparationOptions, ServiceOptions
from jobs.spec import kinds
from jobs.spec.builder import find_cluster, line
from jobs.spec.job_spec import TENSORBOARD_DIR
from jobs.spec.run_key import RunAttempt
from tests.jobs.support import samples
from tests.jobs.support.platform import FIRST, SOFTWARE, platform
from tests.jobs.support.samples import IMAGENET, TRAINING, problems
from trainer.config import CheckpointConfig, LogConfig, TrainConfig
from trainer.distributed.run_requests import DEBUG, HOLD_MINUTES
from trainer.options import PrepareFolderOptions
from trainer.presets import PRESETS, to_args

STACK = platform()


def training(config=TRAINING, stack=STACK, attempt=FIRST, **options):
    chosen = JobOptions(**{"data": IMAGENET, **options})
    return kinds.train(stack, config, chosen, attempt, SOFTWARE)


@pytest.mark.parametrize("profile", ["private", "allowlisted"])
@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize("most", [1, 4, 100])
def test_every_kind_is_built_from_what_a_stack_exports(profile, dedicated, most):
    exported = json.loads(
        json.dumps(outputs.to_dict(platform(profile=profile, dedicated=dedicated, max_nodes=most)))
    )
    stack = outputs.from_dict(exported)
    built = [
        samples.training(most, stack),
        samples.smoke(stack),
        kinds.train(stack, samples.SYNTHETIC, JobOptions(nodes=most), FIRST, SOFTWARE, "benchmark"),
        samples.preparation(stack),
        samples.folder_preparation(stack),
        samples.scoring(stack, min(most, 4)),
        kinds.check(stack, JobOptions(nodes=most), FIRST, SOFTWARE),
    ]
    known = {stack.clusters[key].name for key in ("gpu", "preparation", "cpu")}
    assert {spec.cluster.name for spec in built} == known
    assert [spec.kind for spec in built] == [
        "train", "smoke", "benchmark", "prepare", "prepare", "score", "check"
    ]  # fmt: skip
    if dedicated:
        own = samples.training(1, stack, cluster="gpu_dedicated")
        assert own.cluster == stack.clusters["gpu_dedicated"]


@given(
    st.sampled_from([("Standard_NC64as_T4_v3", 4, False), ("Standard_ND96asr_v4", 8, True)]),
    st.integers(1, 100),
    st.integers(1, 100),
    st.integers(1, 99),
)
@settings(max_examples=50)
def test_a_training_takes_its_cluster_as_it_is_or_says_why_not(kind, most, nodes, number):
    size, gpus, infiniband = kind
    stack = platform(size=size, gpus=gpus, infiniband=infiniband, max_nodes=most)
    attempt = RunAttempt("run", number)
    if nodes > most:
        assert problems(lambda: training(stack=stack, attempt=attempt, nodes=nodes)) == ["--nodes"]
        return
    spec = training(stack=stack, attempt=attempt, nodes=nodes)
    assert spec.ranks == nodes * gpus
    assert spec.name == attempt.name
    assert spec.outputs["run"].uri.endswith("/runs/run")
    assert bool(spec.docker_args) == infiniband


def test_attempts_differ_in_name_and_tags_only():
    first, second = training(), training(attempt=FIRST.following())
    assert second.name != first.name
    assert (
        replace(second, name=first.name, tags=first.tags, display_name=first.display_name) == first
    )


@pytest.mark.parametrize("name", ["train-4-nodes", "train-tuned", "smoke", "benchmark"])
def test_the_trainer_knows_every_option_of_the_command(name):
    spec = samples.every_kind()[name]
    words = shlex.split(spec.command)
    assert words[:4] == ["python", "-m", "trainer", "train"]
    given = dict(zip(words[4::2], words[5::2], strict=True))
    assert set(given) <= {leaf.flag for leaf in fields.leaves(TrainConfig)}
    assert given["--name"] == spec.run
    assert given["--runs-dir"] == "${{outputs.run}}"
    assert given["--log.tensorboard-dir"] == TENSORBOARD_DIR
    assert given["--log.images"] == "none"
    assert given.get("--data.dir", "${{inputs.data}}") == "${{inputs.data}}"


def test_the_trainer_reads_the_command_as_it_was_meant():
    pytest.importorskip("tyro")
    from trainer.presets import parse_train

    config = replace(TRAINING, epochs=30, log=LogConfig(every_steps=7))
    words = shlex.split(training(config).command)
    read = parse_train(words[4:])
    placed = replace(
        config,
        name=FIRST.run,
        runs_dir="${{outputs.run}}",
        data=replace(config.data, dir="${{inputs.data}}"),
        log=replace(config.log, tensorboard_dir=TENSORBOARD_DIR, images="none"),
    )
    assert read == placed
    wanted = replace(config, log=LogConfig(images="thumbnails"))
    assert "--log.images thumbnails" in training(wanted).command


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)))
def test_words_reach_the_program_as_they_are(words):
    words = [word for word in words if "${{" not in word]
    assert shlex.split(line("python", *words)) == ["python", *words]


def test_references_stay_without_quotes_inside_of_words():
    assert line("a b", "${{inputs.raw}}/c d") == "'a b' ${{inputs.raw}}'/c d'"


def test_a_training_names_its_data_once():
    assert problems(lambda: training(data=DataOptions())) == ["--data.asset"]
    assert problems(lambda: training(PRESETS["digits"])) == ["--data.source"]
    elsewhere = replace(TRAINING, data=replace(TRAINING.data, dir="/mnt/imagenet"))
    assert problems(lambda: training(elsewhere)) == ["--data.dir"]


def test_a_folder_instead_of_a_version_is_told():
    spec = training(data=DataOptions(path="imagenet"))
    assert spec.inputs["data"].uri == (
        f"azureml://datastores/{STACK.datastores.prepared.name}/paths/imagenet"
    )
    assert any("may change" in note for note in spec.notes)
    assert not any("may change" in note for note in training().notes)


def test_options_of_a_persons_machine_are_refused_at_once():
    config = replace(
        TRAINING,
        name="other",
        resume="never",
        runs_dir="elsewhere",
        exchange=replace(TRAINING.exchange, timeline="timeline.json"),
        log=LogConfig(tensorboard_dir="tb"),
    )

    def make():
        return training(
            config,
            nodes=99,
            timeout_hours=200.0,
            variables=("NCCL_IB_DISABLE=1",),
            data=IMAGENET,
            services=ServiceOptions(vs_code=True),
        )

    assert sorted(problems(make)) == [
        "--exchange.timeline", "--log.tensorboard-dir", "--name",
        "--nodes", "--resume", "--runs-dir", "--services.vs-code", "--timeout-hours",
        "--variables",
    ]  # fmt: skip


ONLY_ONE = replace(STACK, clusters={"t4": STACK.clusters["gpu"]})
TWO = replace(STACK, clusters=dict.fromkeys(("t4", "a100"), STACK.clusters["gpu"]))
BUILDS = replace(STACK, clusters={"build": STACK.clusters["build"]})


def test_a_job_that_names_no_cluster_runs_on_the_usual_or_only_one_of_its_duty():
    assert training().cluster == STACK.clusters["gpu"]
    assert training(stack=ONLY_ONE).cluster == ONLY_ONE.clusters["t4"]
    usual = replace(TWO, clusters={**TWO.clusters, "gpu": STACK.clusters["build"]})
    gpu = replace(STACK, clusters={**TWO.clusters, **STACK.clusters})
    assert training(stack=gpu).cluster == STACK.clusters["gpu"]
    with pytest.raises(SpecError, match="is missing, as the stack dev has several clusters"):
        training(stack=usual)
    writes = dict.fromkeys(("shards", "more"), STACK.clusters["preparation"])
    others = {key: STACK.clusters[key] for key in ("gpu", "cpu")}
    with pytest.raises(SpecError, match="duty prepare; choose from more ") as caught:
        find_cluster(replace(STACK, clusters={**others, **writes}), None, "prepare")
    assert "gpu" not in str(caught.value)
    assert "cpu" not in str(caught.value)


@pytest.mark.parametrize(
    ("stack", "name", "says"),
    [
        (STACK, "gpux", "the stack dev has no cluster gpux for jobs; choose from cpu (4 x Standa"),
        (STACK, "build", "has no cluster build for jobs; choose from cpu (4 x Standard_D16ads_v5,"
         " Dedicated), gpu (16 x Standard_ND40rs_v2, LowPriority), preparation (4 x Standard_D16"),
        (TWO, None, "has several clusters with the duty train; choose from a100 (16 x "),
        (BUILDS, None, "the stack dev has no cluster with the duty train; it has none"),
    ],
)  # fmt: skip
def test_a_cluster_that_is_not_clear_is_refused_with_those_there_are(stack, name, says):
    with pytest.raises(SpecError) as caught:
        training(stack=stack, cluster=name)
    (problem,) = caught.value.problems
    assert problem.startswith("--cluster: ")
    assert says in problem


def test_a_smoke_test_runs_where_it_is_told_and_a_preparation_only_where_it_may_write():
    on_gpus = JobOptions(cluster="gpu")
    digits = PRESETS["digits"]
    spec = kinds.train(STACK, digits, on_gpus, FIRST, SOFTWARE, "smoke")
    assert (spec.cluster, spec.environment) == (STACK.clusters["gpu"], SOFTWARE.gpu_environment)
    folders = PreparationOptions(raw="raw", prepared="out")
    what = PrepareFolderOptions()
    with pytest.raises(SpecError, match="jobs on gpu may not write prepared data"):
        kinds.prepare(STACK, what, folders, on_gpus, FIRST, SOFTWARE)


def test_a_timeline_that_is_uploaded_is_sound():
    timeline = "outputs/timeline.json"
    spec = training(replace(TRAINING, exchange=replace(TRAINING.exchange, timeline=timeline)))
    assert f"--exchange.timeline {timeline}" in spec.command


def test_a_smoke_test_needs_no_data_and_no_gpu():
    spec = samples.smoke(STACK)
    assert not spec.inputs
    assert spec.cluster == STACK.clusters["cpu"]
    assert spec.environment == SOFTWARE.cpu_environment
    assert (spec.shm_size, spec.docker_args) == (None, None)
    assert problems(
        lambda: kinds.train(STACK, TRAINING, JobOptions(data=IMAGENET), FIRST, SOFTWARE, "smoke")
    ) == ["--data.source"]


def test_a_smoke_test_trains_on_gpus_where_there_is_no_other_training_cluster():
    gpus = {key: one for key, one in STACK.clusters.items() if key != "cpu"}
    spec = samples.smoke(replace(STACK, clusters=gpus))
    assert spec.cluster == STACK.clusters["gpu"]


def test_a_benchmark_reads_the_data_set_that_is_named_and_nothing_else():
    assert not samples.benchmark(STACK).inputs
    named = kinds.train(STACK, TRAINING, JobOptions(data=IMAGENET), FIRST, SOFTWARE, "benchmark")
    assert named.inputs["data"].uri == "azureml:imagenet:3"
    for config, options in (
        (TRAINING, JobOptions()),
        (samples.SYNTHETIC, JobOptions(data=IMAGENET)),
    ):
        found = problems(partial(kinds.train, STACK, config, options, FIRST, SOFTWARE, "benchmark"))
        assert found[0] == "--data.source"


def test_a_check_looks_at_the_network_and_at_data_only_if_named():
    with_data = samples.check(STACK)
    without = kinds.check(STACK, JobOptions(nodes=4), FIRST, SOFTWARE)
    assert with_data.variables["NCCL_DEBUG"] == without.variables["NCCL_DEBUG"] == "INFO"
    assert "--data" in with_data.command.split()
    assert not without.inputs
    assert with_data.timeout_seconds == 2 * 3600


def test_what_is_allowed_but_perhaps_not_expected_is_noted():
    slow = platform(size="Standard_NC64as_T4_v3", gpus=4, infiniband=False)
    assert any("no InfiniBand" in note for note in training(stack=slow, nodes=2).notes)
    assert not any("InfiniBand" in note for note in training(stack=slow).notes)
    bare = replace(TRAINING, checkpoint=CheckpointConfig(every_minutes=0))
    assert any("--checkpoint.every-minutes" in note for note in training(bare).notes)
    assert any("--supervise" in note for note in training().notes)
    own = platform(dedicated=True)
    assert training(stack=own, cluster="gpu_dedicated").notes == ()
    on_cpus = training(cluster="preparation")
    assert any("mixed_float16" in note for note in on_cpus.notes)
    large = PRESETS["imagenet-lars-8192"]
    assert any("8,192 images, but 16 ranks" in note for note in training(large, nodes=2).notes)
    assert not any("--preset" in note for note in training(large, nodes=4).notes)


@pytest.mark.parametrize(("profile", "vs_code"), [("private", False), ("allowlisted", True)])
def test_debug_offers_all_services_that_the_workspace_has(profile, vs_code):
    key = ServiceOptions(ssh_public_key="ssh-ed25519 AAAA")
    spec = training(stack=platform(profile=profile), debug="services", services=key)
    assert spec.services == ServiceOptions("ssh-ed25519 AAAA", vs_code=vs_code, jupyter_lab=True)
    assert DEBUG not in spec.variables
    assert training().services == ServiceOptions()
    assert any("no SSH" in note for note in training(debug="services").notes)


def test_a_paused_training_waits_for_a_debugger():
    assert training(debug="paused").variables[DEBUG] == "0"


def test_nodes_of_a_failed_training_are_kept_if_asked():
    spec = training(hold_on_failure=30.0)
    assert spec.variables[HOLD_MINUTES] == "30"
    assert spec.tags["hold_on_failure"] == "30 min"
    assert HOLD_MINUTES not in training().variables
    assert problems(lambda: training(hold_on_failure=90.0, timeout_hours=1.5)) == [
        "--hold-on-failure"
    ]


def test_a_check_has_no_failure_to_keep():
    options = JobOptions(hold_on_failure=30.0)
    assert problems(lambda: kinds.check(STACK, options, RunAttempt("a"), samples.SOFTWARE)) == [
        "--hold-on-failure, --debug paused"
    ]


@pytest.mark.parametrize("name", samples.every_kind())
def test_no_job_turns_infiniband_off(name):
    variables = samples.every_kind()[name].variables
    assert variables.get("NCCL_IB_DISABLE", "0") == "0"
    assert "NCCL_NET" not in variables
    assert "NCCL_SOCKET_IFNAME" not in variables


def test_a_variable_of_ones_own_comes_last():
    asked = JobOptions(nodes=4, variables=("NCCL_DEBUG=TRACE", "X=1"))
    for spec in (
        training(variables=asked.variables),
        kinds.check(STACK, asked, FIRST, SOFTWARE),
    ):
        assert (spec.variables["NCCL_DEBUG"], spec.variables["X"]) == ("TRACE", "1")


def test_a_preset_goes_by_its_name():
    assert to_args(TRAINING) == ["--preset", "imagenet-ndv2"]
    assert "--preset imagenet-ndv2" in training().command


def divided(stages, config=TRAINING):
    compute = replace(config.compute, xla=False)
    return replace(config, stages=replace(config.stages, count=stages), compute=compute)


@pytest.mark.parametrize(("stages", "processes"), [(1, 8), (2, 4), (4, 2), (8, 1)])
def test_a_training_runs_one_process_for_the_gpus_of_its_stages(stages, processes):
    spec = training(divided(stages), nodes=2)
    assert (spec.processes_per_node, spec.ranks) == (processes, 2 * processes)
    assert spec.description == "train on 2 x 8 GPUs of Standard_ND40rs_v2"
    assert spec.description == training(nodes=2).description


def test_stages_that_do_not_divide_the_gpus_of_a_node_are_the_only_problem():
    with pytest.raises(SpecError) as caught:
        training(divided(3))
    (problem,) = caught.value.problems
    assert "GPUs per process: 3 does not divide the 8 GPUs" in problem


def test_ranks_that_cannot_form_head_groups_are_refused_before_a_node_starts():
    config = replace(TRAINING, compute=replace(TRAINING.compute, xla=False))
    config = replace(config, head=replace(config.head, groups=16))
    with pytest.raises(SpecError) as caught:
        training(config, nodes=1)
    (problem,) = caught.value.problems
    assert "--head.groups: 16 does not divide the number of ranks, 8" in problem
    assert training(config, nodes=2).ranks == 16


def test_a_node_without_gpus_runs_as_many_processes_with_stages_as_without():
    config = divided(2, PRESETS["digits"])
    spec = kinds.train(STACK, config, JobOptions(cpu_processes=3), FIRST, SOFTWARE, "smoke")
    assert spec.processes_per_node == 3


def test_a_warning_about_the_global_batch_counts_ranks_and_not_gpus():
    preset = PRESETS["imagenet-lars-4096"]
    assert not [note for note in training(preset, nodes=2).notes if "global batch" in note]
    (note,) = [note for note in training(divided(2, preset), nodes=2).notes if "batch" in note]
    assert "8 ranks x --batch-size 256 make 2,048" in note
