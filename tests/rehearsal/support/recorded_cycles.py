"""Records of rehearsals that never happened: a whole cycle, and one that failed."""

import dataclasses

from rehearsal.page.record import Attempt, Cycle, Link, NodePool, StepResult
from rehearsal.page.request_kinds import RequestKind

BEGAN = 1_793_515_200.0

# Name, title, command, seconds, findings.
_STEPS = [
    ("preview", "Preview the dev stack", "pulumi preview --stack dev", 10.4, ["118 to create"]),
    ("up", "Deploy the dev stack", "pulumi up --yes --stack dev", 16.8, ["118 created"]),
    ("again", "Deploy it again", "pulumi up --yes --expect-no-changes", 11.9, ["no changes"]),
    (
        "outputs",
        "Read what the platform tells",
        "pulumi stack output platform --json",
        1.6,
        ["schema version 1", "clusters gpu, preparation, build"],
    ),
    (
        "preflight",
        "Check that a job could run",
        "python -m jobs preflight --nodes 2",
        4.2,
        ["14 points ok", "note: every limit of cores here is 1000"],
    ),
    (
        "prepare",
        "Prepare digits",
        "python -m trainer prepare digits --output build/digits",
        6.1,
        ["1,437 training images, 360 held out", "8 shards"],
    ),
    (
        "upload",
        "Upload the data set",
        "python -m jobs upload build/digits --to prepared/digits",
        3.9,
        ["9 files, 1.1 MB", "version 5c1f09e2"],
    ),
    (
        "submit",
        "Submit the training",
        "python -m jobs submit --preset digits --nodes 2 --name rehearsal",
        7.3,
        ["2 ranks on 2 nodes of gpu-nd40rsv2-lp"],
    ),
    (
        "follow",
        "Follow it, pre-empted in the middle",
        "python -m jobs follow rehearsal --supervise",
        96.5,
        ["nodes taken at step 160", "resubmitted by itself", "continued at step 141", "Completed"],
    ),
    (
        "curves",
        "Read the curves from blob storage",
        "python -m jobs curves rehearsal",
        9.8,
        ["TensorBoard answers: 2 runs, 11 curves"],
    ),
    (
        "download",
        "Download model and report",
        "python -m jobs download rehearsal --to build/rehearsal",
        2.7,
        ["model.safetensors, report.html, metrics.jsonl"],
    ),
    (
        "evaluate",
        "Evaluate the downloaded model",
        "python -m trainer evaluate --run build/rehearsal",
        11.2,
        ["top-1 97.22 %, as the job reported"],
    ),
    (
        "register",
        "Register the model",
        "python -m jobs register rehearsal",
        3.4,
        ["digits, version 1"],
    ),
    (
        "change",
        "Change a setting",
        "pulumi config set --path clusters.gpu.max_nodes 4 && pulumi up --yes",
        14.6,
        ["1 updated: computes gpu-nd40rsv2-lp", "117 unchanged"],
    ),
    (
        "drift",
        "Edit behind Pulumi's back",
        "pulumi refresh --preview-only --diff",
        8.8,
        ["exactly that: storage account, allowSharedKeyAccess true"],
    ),
    (
        "teardown",
        "Take everything down",
        "python -m jobs teardown --stack dev --yes",
        18.9,
        ["118 deleted", "workspace and vault purged", "nothing left"],
    ),
    (
        "teardown-again",
        "Take it down once more",
        "python -m jobs teardown --stack dev --yes",
        3.2,
        ["nothing to do"],
    ),
]


def _steps():
    at, found = BEGAN + 2.5, []
    for name, title, command, seconds, lines in _STEPS:
        found.append(StepResult(name, title, command, at, seconds, "ok", tuple(lines)))
        at += seconds + 0.3
    return tuple(found)


def _kinds():
    # Method, resource, count, answered that it is not there, milliseconds.
    managed = [
        ("GET", "workspaces/jobs", 88, 0, 3.1),
        ("GET", "privateEndpoints", 41, 6, 1.9),
        ("PUT", "roleAssignments", 31, 0, 4.4),
        ("GET", "roleAssignments", 62, 31, 1.7),
        ("PUT", "privateDnsZones", 7, 0, 3.0),
        ("PUT", "privateDnsZones/virtualNetworkLinks", 7, 0, 3.2),
        ("PUT", "virtualNetworks/subnets", 4, 0, 5.6),
        ("PUT", "workspaces/computes", 4, 0, 6.9),
        ("DELETE", "workspaces/computes", 3, 0, 5.1),
        ("GET", "workspaces/computes", 26, 3, 2.2),
        ("POST", "workspaces/datastores: listSecrets", 2, 0, 1.9),
        ("PUT", "storageAccounts", 2, 0, 20.7),
        ("PATCH", "storageAccounts", 1, 0, 6.0),
        ("PUT", "workspaces/jobs", 2, 0, 18.8),
        ("PUT", "workspaces/models/versions", 1, 0, 7.2),
        ("DELETE", "resourceGroups", 1, 0, 31.0),
        ("DELETE", "workspaces", 2, 0, 12.0),
    ]
    blobs = [
        ("PUT", "blob", 212, 0, 2.6),
        ("GET", "blob", 341, 0, 1.8),
        ("HEAD", "blob", 143, 57, 1.4),
        ("GET", "container: list", 118, 0, 2.9),
        ("PUT", "blob: block", 24, 0, 3.7),
        ("PUT", "blob: block list", 12, 0, 3.1),
        ("DELETE", "blob", 9, 0, 1.6),
    ]
    history = [("GET", "runs: details", 96, 0, 4.0), ("GET", "runs", 11, 0, 3.6)]
    signs = [("POST", "token", 38, 0, 0.8), ("GET", "configuration", 44, 0, 0.6)]
    metrics = [("POST", "runs/log-batch", 74, 0, 2.2), ("GET", "runs/get", 2, 0, 1.4)]
    services = {
        "resource manager": managed,
        "blob storage": blobs,
        "run history": history,
        "sign-in": signs,
        "metrics": metrics,
    }
    return tuple(
        RequestKind(name, method, resource, count, 0, median, absent)
        for name, kinds in services.items()
        for method, resource, count, absent, median in kinds
    )


def whole():
    """All went well, with the nodes taken once."""
    steps = _steps()
    submit = next(step for step in steps if step.name == "submit")
    follow = next(step for step in steps if step.name == "follow")
    first, cut = submit.began + 5.8, follow.began + 41.0
    second, done = cut + 7.5, follow.began + 92.5
    gpu, size = "gpu-nd40rsv2-lp", "Standard_ND40rs_v2"
    samples = [(BEGAN, 0), (first + 0.8, 1), (first + 1.4, 2), (cut, 0), (second + 1.5, 1)]
    samples += [(second + 2.1, 2), (done + 6.0, 1), (done + 6.4, 0)]
    return Cycle(
        title="Rehearsal of the dev stack",
        began=BEGAN,
        seconds=steps[-1].began + steps[-1].seconds - BEGAN + 1.2,
        machine="Linux 6.1, 2 cores, 8 GB",
        engine_version="3.259.0",
        versions=(
            ("azure-ai-ml", "1.35.2"),
            ("Azurite", "3.35.0"),
            ("TensorFlow", "2.18.1"),
            ("Horovod", "0.28.1"),
            ("Python", "3.11.9"),
        ),
        steps=steps,
        attempts=(
            Attempt(
                *("rehearsal", gpu, 2, 2, first, cut, "Failed"),
                "PreemptionError: Nodes of this job got pre-empted.",
                *(1, 160),
            ),
            Attempt("rehearsal-2", gpu, 2, 2, second, done, "Completed", "", 141, 400),
        ),
        pools=(
            NodePool(gpu, size, "LowPriority", tuple(samples)),
            NodePool("preparation-d8adsv5", "Standard_D8ads_v5", "Dedicated", ((BEGAN, 0),)),
            NodePool("build-d4adsv5", "Standard_D4ads_v5", "Dedicated", ((BEGAN, 0),)),
        ),
        kinds=_kinds(),
        links=(
            Link("The run's own report: curves, confusion, mistakes", "rehearsal/report.html"),
            Link("Output of the steps", "logs/"),
            Link("This record", "rehearsal.json"),
        ),
    )


def failed():
    """The second deployment failed, and nothing was done after it."""
    good = whole()
    index = next(n for n, step in enumerate(good.steps) if step.name == "again")
    wrong = dataclasses.replace(
        good.steps[index],
        outcome="failed",
        lines=(
            "expected no changes, found 1",
            "~ azure-native:machinelearningservices:Compute gpu-nd40rsv2-lp update",
            "    ~ properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown:"
            ' "PT120S" => "PT2M"',
        ),
        place="build/rehearsal/logs/again.log",
    )
    skipped = (
        dataclasses.replace(step, outcome="skipped", began=0.0, seconds=0.0, lines=())
        for step in good.steps[index + 1 :]
    )
    return dataclasses.replace(
        good,
        seconds=wrong.began + wrong.seconds - BEGAN,
        steps=(*good.steps[:index], wrong, *skipped),
        attempts=(),
        pools=tuple(dataclasses.replace(pool, samples=((BEGAN, 0),)) for pool in good.pools),
        kinds=good.kinds[:6],
        links=(Link("Output of the steps", "logs/"),),
    )
