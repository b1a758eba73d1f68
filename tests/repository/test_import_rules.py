"""Which modules load the standard library alone, sign in, or name files of another package.

`[tool.importlinter]` in pyproject.toml says which package may import which.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

WORLDS = (*("common", "infra", "jobs", "trainer", "serving", "rehearsal", "environments", "tools"),)

SIGN_IN = {"jobs/azure/sign_in.py", "trainer/extras/evidence/vault.py"}
"""Modules that import azure.identity: people and workflows sign in, and a run signs statements with
a key of Key Vault."""

STANDARD_LIBRARY_ONLY = [
    *(
        "common.annotations",
        "common.containers",
        "common.errors",
        "common.fields",
        "common.files",
        "common.prices",
        "common.text",
        "common.waiting",
        "common.page.parts",
        "common.page.plots",
    ),
    *("trainer.combinations", "trainer.model_config", "trainer.networks"),
    *("trainer.leaf", "trainer.leaves", "trainer.task_descriptions"),
    *("trainer.config", "trainer.presets", "trainer.options", "trainer.errors"),
    *("trainer.networks", "trainer.model.description", "trainer.model.preflight"),
    "trainer.early_stop.leaf",
    *("common.source_files", "trainer.own_code.code", "trainer.own_code.importer"),
    *("trainer.data.manifest", "trainer.data.order"),
    *("trainer.diagnostics.environment", "trainer.diagnostics.infiniband"),
    *("trainer.diagnostics.machine", "trainer.diagnostics.nccl"),
    *("trainer.distributed.rank", "trainer.distributed.restart_policy"),
    "trainer.distributed.run_requests",
    *("common.image_files", "trainer.export.layout", "trainer.loggers.metrics_file"),
    "trainer.report.run_data",
    "trainer.extras.spark.world",
    *(
        "trainer.extras.evidence.chain",
        "trainer.extras.evidence.signing",
        "trainer.extras.evidence.statements",
    ),
    "trainer.training.plan",
    *("infra.catalog.dns_zones", "infra.catalog.network_rules", "infra.catalog.resource_ids"),
    *("infra.catalog.roles", "infra.catalog.vm_sizes", "infra.errors", "infra.naming"),
    *(
        "infra.outputs",
        "infra.rules.rule",
        "infra.resources",
        "infra.setting_types",
        "infra.settings",
    ),
    *("infra.subnets", "infra.validation", "infra.leaf", "infra.leaves"),
    *("infra.extras.alerts.alert_rules", "infra.extras.jump_machine.cloud_init"),
    *("jobs.errors", "jobs.exit_status", "jobs.following.cluster_check_result"),
    *("jobs.extras.elastic.placement_policy", "trainer.extras.scheduled_events.event_policy"),
    *("jobs.evictions", "jobs.following.job_states", "jobs.following.resubmit_policy"),
    *("jobs.following.supervision_policy", "jobs.options"),
    *("jobs.extras.estimate.factors", "jobs.extras.estimate.forecast"),
    *("jobs.extras.estimate.rows", "jobs.extras.estimate.report"),
    "jobs.extras.estimate.workload",
    *("jobs.gone", "jobs.extras.scaling.measurement"),
    "jobs.throughput",
    *("jobs.pulumi.changes", "jobs.runner_policy"),
    *("jobs.pulumi.retry_policy", "jobs.pulumi.state", "jobs.spec.build_context"),
    *(
        "jobs.extras.serving.monitoring",
        "jobs.extras.serving.bodies",
        "jobs.extras.serving.traffic_policy",
    ),
    *("jobs.spec.budget_policy", "jobs.spec.builder"),
    "jobs.spec.code_snapshot",
    *("jobs.spec.environment_variables", "jobs.spec.job_spec"),
    *("jobs.spec.kinds", "jobs.spec.run_key", "jobs.spec.tags"),
    *(
        "jobs.extras.batch.spec",
        "jobs.job_kinds",
        "jobs.leaf",
        "jobs.leaves",
        "jobs.extras.sweep.sweep",
    ),
    *("rehearsal.blob_storage.role_policy", "rehearsal.control_plane.arm_path"),
    *("rehearsal.control_plane.azure_formats", "rehearsal.machine_learning.preemption_policy"),
    *("rehearsal.options", "trainer.checkpoints.retention_policy"),
]
"""Modules that can be tested without a cloud, a GPU or an installation; all policies among them."""


def files(world):
    return sorted((ROOT / world).rglob("*.py"))


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path) for world in WORLDS for path in files(world)}

STANDARD_LIBRARY_ONLY += sorted(
    name
    for name in MODULES - set(STANDARD_LIBRARY_ONLY)
    if name.startswith("trainer.") and name.endswith((".leaf", ".options"))
)


def imported(tree):
    """Full names of all that a file imports, anywhere in it, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_few_modules_sign_in():
    importers = {
        path.relative_to(ROOT).as_posix()
        for world in ("trainer", "jobs", "infra", "common")
        for path in files(world)
        if any(
            f"{name}.".startswith("azure.identity.")
            for name in imported(ast.parse(path.read_text()))
        )
    }
    assert importers == SIGN_IN


MAY_NAME_FILES_OF = {
    # Code that is shipped to nodes.
    "jobs/spec/code_snapshot.py": {"common", "trainer"},
    # Code that the scoring server loads.
    "trainer/scoring/server.py": {"serving"},
    # Files that an image is built from.
    "jobs/spec/build_context.py": {"environments", "serving", "trainer"},
    # The environment of the server, which has its name.
    "rehearsal/options.py": {"serving"},
    # The stack whose outputs are read, and the program that makes it, are Pulumi's to find.
}
"""Files that name the files of another world by path, with that world."""


def path_segments(tree):
    """Texts that stand in an expression with `/`, or are arguments of joinpath."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            for side in (node.left, node.right):
                if isinstance(side, ast.Constant) and isinstance(side.value, str):
                    yield side.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "joinpath":
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))


@pytest.mark.parametrize("world", ["common", "infra", "jobs", "trainer", "rehearsal"])
def test_no_world_reads_the_files_of_another_by_path(world):
    for path in files(world):
        name = path.relative_to(ROOT).as_posix()
        others = set(WORLDS) - {world} - MAY_NAME_FILES_OF.get(name, set())
        for text in path_segments(ast.parse(path.read_text())):
            assert text.strip("/").split("/")[0] not in others, f"{name} names {text}"


def test_pure_modules_load_only_the_standard_library():
    code = (
        "import importlib, sys\n"
        "known = {*sys.stdlib_module_names, *sys.argv[1].split()}\n"
        "for module in sys.argv[2:]:\n"
        "    importlib.import_module(module)\n"
        "    top = {name.split('.')[0] for name in sys.modules}\n"
        "    for other in sorted(name for name in top - known if name[0] != '_'):\n"
        "        sys.exit(f'{module} loads {other}')\n"
    )
    # -S leaves out site-packages, so that anything else would fail to import.
    command = [sys.executable, "-S", "-c", code, " ".join(WORLDS), *STANDARD_LIBRARY_ONLY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_policy_is_pure():
    policies = {module for module in MODULES if module.endswith("_policy")}
    assert policies <= set(STANDARD_LIBRARY_ONLY)


def test_programs_in_strings_import_modules_that_exist():
    for path in [path for world in (*WORLDS, "tests") for path in files(world)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for line in node.value.splitlines():
                    words = line.split()
                    if words[:1] in (["from"], ["import"]) and len(words) > 1:
                        module = words[1].rstrip(";,")
                        if "." in module and module.split(".")[0] in WORLDS:
                            assert exists(module), f"{path}: {line.strip()}"


def exists(module):
    place = Path(ROOT, *module.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()
