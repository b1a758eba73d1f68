"""A feature is a leaf: its words stand in its folders and its rows, and nowhere else.

A row is one line of a table, or the values that a preset gives a leaf's options. To add a feature,
add it here first.
"""

import re
from dataclasses import dataclass

import pytest

from tests import ROOT
from tests.repository.test_import_rules import WORLDS, files


@dataclass(frozen=True)
class Leaf:
    """A feature, and where it may be named."""

    words: str
    """Regular expression of its words, in any case."""
    folders: tuple[str, ...]
    """Its folders and modules."""
    rows: tuple[str, ...] = ()
    """Modules of tables that have a row of it."""


PLATFORM = "infra/leaves.py"
SIMULATED = "rehearsal/pulumi/provider/types.py"
"""Azure's own types of resource, in the simulator."""
SHOWN = "rehearsal/control_plane/envelopes.py"
"""What resources of each kind show of their state."""

ANSWERS = ("rehearsal/resources/answers.py", "rehearsal/resources/defaults.py")
"""What Azure answers of each kind, beyond what was sent."""
MEASURED = ("benchmarks/images/growth.py", "benchmarks/training/gpu.py")
"""Presets and preparations that are measured."""

SWEEP = "jobs/extras/sweep/command.py"
"""Its example is a search for the rate of fine-tuning."""

LEAVES = {
    "endpoints": Leaf(
        r"undeploy|EndpointState|jobs[./]serving|onlineEndpoints",
        ("jobs/extras/serving", "rehearsal/serving"),
        # A role of people excludes them.
        (
            "infra/extras/scientist_role/leaf.py",
            "infra/extras/scientist_role/security.py",
            *ANSWERS,
        ),
    ),
    "batch scoring": Leaf(
        r"score.?batch|BatchOptions|jobs[./]batch|scor\w+ in batch", ("jobs/extras/batch",)
    ),
    "inspection": Leaf(
        r"jobs[./]inspection|RunBlobs|find_running|DebugOptions",
        ("jobs/extras/inspection",),
    ),
    "pipelines": Leaf(
        r"jobs[./]pipelines|\"pipelines\"|runner_policy|github-hosted|RUNNER_INSIDE|StateNames"
        r"|BackendOptions|CommentOptions|DriftOptions",
        ("jobs/extras/pipelines",),
        ("jobs/leaves.py",),
    ),
    "elastic": Leaf(
        r"elastic|--min-nodes|\bmove_(up|down)|placement_policy",
        ("jobs/extras/elastic",),
        ("jobs/leaves.py",),
    ),
    "sweep": Leaf(r"jobs[./]sweep|SweepJob|search_space|read_sweep", ("jobs/extras/sweep",)),
    "segmentation": Leaf(
        r"segmentation(?! fault)|\bmasks?\b|\bunet\b|\bdilated\b|\bscenes\b",
        ("trainer/extras/segmentation", "serving/segmentation.py"),
        (
            "trainer/leaves.py",
            "serving/score.py",
            # The values at which its preset was measured, and what is disturbed.
            "benchmarks/tables.py",
            "benchmarks/documents.py",
            *MEASURED,
        ),
    ),
    "float16": Leaf(
        r"trainer[./]float16|saved_model_float16|Float16Options|HalfModel",
        ("trainer/extras/float16",),
        ("benchmarks/tables.py",),
    ),
    "detection": Leaf(
        # Of a preparation, whose reader finds splits and damage: "detection" alone is a word.
        r"\bdetection\b(?! of)|\bfcos\b|\bcoco\b|\byolo\b|\bshapes preset\b|mean average precision",
        ("trainer/extras/detection", "serving/detection.py"),
        # Azure calls a rule of its own "Smart Detection".
        ("trainer/leaves.py", "serving/score.py", "jobs/pulumi/leftover_resources.py", *MEASURED),
    ),
    "multi-label": Leaf(
        r"multi.?label|multi.?hot|\"tiles\"|\bmean_ap\b",
        ("trainer/extras/multilabel", "serving/multilabel.py"),
        ("trainer/leaves.py", "serving/score.py", *MEASURED),
    ),
    "ONNX": Leaf(
        r"onnx",
        ("trainer/extras/onnx",),
        # A recorded benchmark compared it with the SavedModel.
        ("trainer/leaves.py", "benchmarks/tables.py"),
    ),
    "Parquet": Leaf(
        r"parquet|pyarrow",
        (
            "trainer/extras/parquet",
            # Scores are written as Parquet by default, and read by other tools.
            "trainer/scoring",
            # Spark's own format, in which the classifier hands over the images of a DataFrame.
            "trainer/extras/spark",
        ),
        # The benchmarks of the input compare it with TFRecords.
        ("trainer/leaves.py", "benchmarks/input.py", "benchmarks/photos.py"),
    ),
    "Spark": Leaf(
        r"\bspark\b|pyspark",
        ("trainer/extras/spark",),
        ("trainer/leaves.py", "benchmarks/tables.py", "benchmarks/documents.py"),
    ),
    "estimate": Leaf(
        r"jobs[./]estimate|Forecaster|Workload\b|back_test", ("jobs/extras/estimate",)
    ),
    "scaling": Leaf(
        r"jobs[./ ]scaling|ScalingPage|wanted_points",
        ("jobs/extras/scaling", "benchmarks/scaling.py"),
    ),
    "jump machine": Leaf(
        r"jump.?(machine|subnet|access|host|users)|bastion",
        ("infra/extras/jump_machine",),
        # The contract with jobs/ has a field for it.
        (
            PLATFORM,
            "infra/outputs.py",
            "rehearsal/resources/networks.py",
            SIMULATED,
            *ANSWERS,
        ),
    ),
    "managed network": Leaf(
        r"infra[./]managed_network|ManagedNetworkSettings\b|accept_one_way|image.publishers|AllowOnlyApproved"
        r"|outbound.?rules?\b|profile.{0,6}\bmanaged\b",
        ("infra/extras/managed_network", "rehearsal/resources/managed_networks.py"),
        (
            PLATFORM,
            # The snapshots of stacks, and what Azure runs one at a time.
            "infra/render/snapshot.py",
            "rehearsal/resources/account_operations.py",
            # A role of people excludes its rules.
            "infra/extras/scientist_role/leaf.py",
            "infra/extras/scientist_role/security.py",
            SIMULATED,
            SHOWN,
            *ANSWERS,
        ),
    ),
    "monitor's private link": Leaf(
        r"monitor_?(link|scope)|monitoring.private_link|PrivateLinkScope",
        ("infra/extras/monitor_link",),
        (PLATFORM, SIMULATED),
    ),
    "customer-managed keys": Leaf(
        r"customer.?(managed|key)|EncryptionSettings|KeyEncryption",
        ("infra/extras/customer_keys",),
        (PLATFORM,),
    ),
    "copies of the registry": Leaf(
        r"infra[./]replicas|ReplicaSettings|remote_reason|:Replication\b|registries/replications",
        ("infra/extras/replicas",),
        (PLATFORM, SIMULATED, "rehearsal/resources/simple_kinds.py"),
    ),
    "budget of the platform": Leaf(
        r"consumption.budget|BudgetSettings|forecast_percent|infra.extras.budget",
        ("infra/extras/budget",),
        (PLATFORM, SIMULATED, SHOWN),
    ),
    "alerts": Leaf(
        r"alert_rules|AlertSettings|ScheduledQueryRule|preempted_nodes|infra.extras.alerts",
        ("infra/extras/alerts",),
        # Azure refuses a query before its first row, and makes rules of its own.
        (
            *(PLATFORM, SIMULATED, SHOWN, "jobs/pulumi/refusals.py"),
            "jobs/pulumi/leftover_resources.py",
        ),
    ),
    "role of scientists": Leaf(
        r"scientist_role|ScientistSettings|existing_clusters_only",
        ("infra/extras/scientist_role",),
        # The snapshots of stacks.
        (PLATFORM, "infra/render/snapshot.py"),
    ),
    "head groups": Leaf(
        r"head.groups|HeadOptions|DividedHead|DividedClassification",
        ("trainer/extras/head",),
        ("trainer/leaves.py",),
    ),
    "stages": Leaf(
        r"stages.count|StagesOptions|stage_devices|build_divided|ColocatedTape|pipelined\(",
        ("trainer/extras/stages",),
        ("trainer/leaves.py",),
    ),
    "periodic averaging": Leaf(
        r"averaging[._](every|until|rule)|AveragingOptions|periodic averag|local SGD",
        ("trainer/extras/averaging",),
        ("trainer/leaves.py",),
    ),
    "early stopping": Leaf(
        r"early.?stop|least_gain|\bpatience\s*=\s*\d",
        ("trainer/training/early_stop",),
        # Presets, and the run that fits a data set, give it a value.
        ("trainer/leaves.py", "trainer/fitting/own_images/presets.py", "trainer/fitting/choice.py"),
    ),
    "own images at 224 pixels": Leaf(
        r"trainer[./]own_images|images.224",
        ("trainer/fitting/own_images",),
        # The default task suggests its presets.
        (
            "trainer/leaves.py",
            "trainer/tasks/classification/leaf.py",
            "jobs/extras/sweep/leaf.py",
            SWEEP,
        ),
    ),
    "virtual ranks": Leaf(
        r"virtual.?ranks?",
        ("trainer/extras/virtual_ranks",),
        ("trainer/leaves.py", "benchmarks/commands.py", "benchmarks/tables.py"),
    ),
    "sharded state": Leaf(
        r"sharded[._](state|optimizer)|ShardedO|ShardedState",
        ("trainer/extras/sharded",),
        ("trainer/leaves.py",),
    ),
    "medical formats": Leaf(
        r"dicom|TiffPages|trainer[./]medical",
        ("trainer/data/medical",),
        ("trainer/leaves.py",),
    ),
    "weights of torchvision": Leaf(
        r"torchvision|\btimm\b",
        ("trainer/model/torchvision", "benchmarks/training/peers"),
        ("trainer/leaves.py",),
    ),
    "MLflow": Leaf(
        r"MlflowLogger|MlflowClient|mlflow_logger|trainer\.mlflow",
        ("trainer/extras/mlflow",),
        ("trainer/leaves.py",),
    ),
    "scheduled events": Leaf(
        r"scheduled.?events|EventOptions|EventObserver|events\.address",
        ("trainer/extras/scheduled_events", "rehearsal/machine_learning/metadata.py"),
        ("trainer/leaves.py",),
    ),
    "evidence": Leaf(
        r"(trainer|jobs)[./]evidence|Evidence[A-Z]|evidence_observer|state_rewritten|in-toto|\bDSSE\b"
        r"|(verify|describe)[-_]model",
        ("trainer/extras/evidence", "jobs/extras/evidence"),
        ("trainer/leaves.py", "jobs/leaves.py", "benchmarks/commands.py"),
    ),
    "conformance": Leaf(r"conformance", ("conformance",)),
    "calibration": Leaf(
        r"calibration\.temperature|CalibrationOptions|calibrate_run|trainer[./]calibration"
        r"|temperature scaling",
        ("trainer/extras/calibration",),
        ("trainer/leaves.py",),
    ),
    "near-duplicates": Leaf(
        r"near.?duplicates?|DuplicateOptions|trainer[./]duplicates|perceptual",
        ("trainer/data/duplicates",),
        ("trainer/leaves.py", "benchmarks/prepare.py", *MEASURED),
    ),
    "slices": Leaf(
        r"slices\.(pattern|table|column)|SlicesOptions|slices\.csv|trainer[./]slices",
        ("trainer/extras/slices",),
        ("trainer/leaves.py",),
    ),
    "class imbalance": Leaf(
        r"imbalance\.(by|beta)|ImbalanceOptions|trainer[./]imbalance|class.?(weights|sampling)\b"
        r"|WeightedTask",
        ("trainer/tasks/imbalance",),
        # The run that fits unequal classes gives it a value.
        ("trainer/leaves.py", "trainer/fitting/choice.py"),
    ),
    "profiler": Leaf(
        r"tf\.profiler|profile[._]steps|profile_span|ProfileO|TensorFlow's profiler",
        ("trainer/extras/profiler", "jobs/extras/inspection"),
        ("trainer/leaves.py",),
    ),
}


def named(leaf):
    """Return the modules that name a leaf outside its folders and rows, with the lines."""
    found = {}
    for path in (path for world in WORLDS for path in files(world)):
        place = path.relative_to(ROOT).as_posix() if path.is_absolute() else path.as_posix()
        if place in leaf.rows or any(
            place == home or place.startswith(f"{home}/") for home in leaf.folders
        ):
            continue
        lines = [
            f"{number}: {line.strip()}"
            for number, line in enumerate((ROOT / place).read_text().splitlines(), 1)
            if re.search(leaf.words, line, re.IGNORECASE)
        ]
        if lines:
            found[place] = lines
    return found


@pytest.mark.parametrize("name", LEAVES)
def test_only_its_folders_and_rows_name_a_leaf(name):
    assert named(LEAVES[name]) == {}


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_is_where_the_table_says(name):
    leaf = LEAVES[name]
    homes = [place for place in files_of(leaf) if re.search(leaf.words, place, re.IGNORECASE)]
    texts = [(ROOT / place).read_text() for place in files_of(leaf)]
    assert homes or any(re.search(leaf.words, text, re.IGNORECASE) for text in texts)


def files_of(leaf):
    """Return the Python files of a leaf's folders."""
    return [
        path.relative_to(ROOT).as_posix()
        for home in leaf.folders
        for path in ([ROOT / home] if home.endswith(".py") else sorted((ROOT / home).rglob("*.py")))
    ]
