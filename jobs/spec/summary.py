"""The summary of a job that is printed before it is submitted. Pure; estimates no time or cost."""

from typing import Any

from common.text import plural
from jobs.spec.job_spec import JobSpec
from trainer.data.manifest import Manifest
from trainer.training.plan import Plan


def lines(spec: JobSpec, plan: Plan | None, manifest: Manifest | None, unknown: str | None) -> str:
    """Format the summary.

    Args:
        spec: Job to submit.
        plan: Plan of the training; None if the job does not train, or the plan is unknown.
        manifest: Manifest of the data set, if known.
        unknown: Why the plan is unknown, or None.
    """
    cluster = spec.cluster
    facts = {"cluster": f"{cluster.name}: {_nodes(spec)}, {cluster.priority}"}
    facts["image"] = spec.environment
    facts["code"] = spec.tags.get("code", "")
    for name, folder in {**spec.inputs, **spec.outputs}.items():
        facts[name] = f"{folder.uri} ({folder.mode})"
    if manifest is not None:
        images = manifest.splits["train"].examples
        facts["data set"] = (
            f"version {manifest.version}: {plural(images, 'training image')},"
            f" {plural(len(manifest.classes), 'class', 'classes')}"
        )
    if plan is not None:
        whole = f" of {plan.total_steps:,}" if plan.last_step < plan.total_steps else ""
        facts["batch"] = (
            f"{plural(plan.global_batch, 'image')} per step over {plural(plan.ranks, 'rank')}"
        )
        if cluster.gpus_per_node and spec.gpus_per_process > 1:
            facts["batch"] += f" of {spec.gpus_per_process} GPUs"
        facts["steps"] = f"{plan.last_step:,}{whole} ({plural(plan.epochs, 'epoch')})"
    elif unknown is not None:
        facts["steps"] = f"unknown: {unknown}"
    facts["timeout"] = _lifetime(spec.timeout_seconds)
    width = max(map(len, facts))
    return "\n".join(
        [
            f"{spec.display_name} ({spec.kind})",
            *(f"  {name:<{width}}  {text}" for name, text in facts.items()),
            *(f"  note: {note}" for note in spec.notes),
        ]
    )


def document(spec: JobSpec, plan: Plan | None) -> dict[str, Any]:
    """Return the summary for JSON output."""
    return {
        "run": spec.run,
        "job": spec.name,
        "kind": spec.kind,
        "cluster": spec.cluster.name,
        "nodes": spec.nodes,
        "ranks": spec.ranks,
        "priority": spec.cluster.priority,
        "environment": spec.environment,
        "tags": dict(spec.tags),
        "steps": plan.last_step if plan else None,
        "timeout_seconds": spec.timeout_seconds,
        "notes": list(spec.notes),
    }


def _nodes(spec: JobSpec) -> str:
    cluster, nodes = spec.cluster, f"{spec.nodes} x {spec.cluster.size}"
    if not cluster.gpus_per_node:
        return nodes
    network = ", InfiniBand" if cluster.infiniband else ""
    return f"{nodes} with {cluster.gpus_per_node} GPUs{network}"


def _lifetime(seconds: int) -> str:
    hours = seconds / 3600
    return (
        plural(round(hours / 24), "day") if hours >= 48 and not hours % 24 else f"{hours:g} hours"
    )
