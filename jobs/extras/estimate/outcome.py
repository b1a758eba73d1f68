"""The estimate of a completed run, compared with its outcome."""

import json
from dataclasses import replace
from math import inf

from common import fields
from common.errors import UserError
from common.prices import money, total
from infra.catalog import vm_sizes
from infra.outputs import PlatformOutputs
from jobs.azure import node_prices
from jobs.commands.runs.compare import ComparedRun, read_files
from jobs.extras.estimate.command import measured
from jobs.extras.estimate.forecast import Assumptions, Estimate, Forecaster
from jobs.extras.estimate.workload import DataSize, Workload
from trainer.config import TrainConfig


def compared_run(outputs: PlatformOutputs, key: str) -> ComparedRun:
    """Return a run with its files and costs.

    Raises:
        UserError: Azure refuses, or there is no such run.
    """
    # Azure's libraries take seconds to import.
    from jobs.azure.costs import JobCosts  # noqa: PLC0415
    from jobs.azure.workspace import connect  # noqa: PLC0415

    workspace = connect(outputs)
    files = read_files(workspace.storage, [key])
    jobs = workspace.jobs.attempts(key)
    costs = JobCosts(workspace.jobs, workspace.manager, outputs.clusters)
    return ComparedRun(key, files[key], jobs, list(costs.of(jobs).values()))


def about_run(run: ComparedRun, outputs: PlatformOutputs) -> str | None:
    """Return the estimate of a completed run and its outcome in a line; None if there is none.

    Both count the time in which nodes train, without allocation and image pulls, as the estimate of
    a cost does. The estimate has the steps of the run itself; measured points of the stack are used
    as `plan` uses them.

    Args:
        run: The run, with its files and the cost of its jobs.
        outputs: Outputs of the stack.
    """
    names = {cluster.name.lower(): cluster for cluster in outputs.clusters.values()}
    cluster = names.get(run.jobs[-1].cluster.lower()) if run.jobs else None
    size = vm_sizes.find(cluster.size) if cluster else None
    if cluster is None or size is None or "result.json" not in run.files:
        return None
    try:
        stored, steps = json.loads(run.files["config.json"]), int(run.result["steps"])
        current = fields.with_current_keys(TrainConfig, stored["config"])
        config = replace(fields.from_dict(TrainConfig, current), max_seconds=None)
        # The manifest is not read again: the number of steps says how many images an epoch has.
        known = DataSize()
        images = round(steps * stored["global_batch"] / config.epochs)
        if config.max_steps is not None and steps >= config.max_steps:
            images = max(images, known.images)
        size_gb = known.gigabytes * images / known.images
        data = DataSize(images, size_gb, known.megapixels, "the run's")
        points = measured(outputs=outputs)
        workload = Workload(config, data)
        prices = node_prices.known(outputs.region)
    except (KeyError, TypeError, ValueError, UserError):
        return None
    nodes, assumed = run.jobs[-1].nodes, Assumptions()
    choice = Forecaster(workload, prices, assumed, points).choice(size, nodes, cluster.priority)
    return compared(choice, assumed.start_minutes, run)


def compared(choice: Estimate, start_minutes: float, run: ComparedRun) -> str | None:
    """Return a forecast and the outcome of a run in a line; None if the forecast has no end."""
    if choice.hours is None or choice.hours.high == inf:
        return None
    hours = choice.hours.shifted(-start_minutes / 60).scaled(choice.nodes)
    text = f"{hours.middle:.2f} node hours ({hours.low:.2f} - {hours.high:.2f})"
    if choice.price:
        low, middle, high = hours.scaled(choice.price.amount).values
        text += f", {money(middle, choice.price.currency)} ({low:,.2f} - {high:,.2f})"
    spent = total(run.cost)
    was = spent.node_seconds / 3600
    place = "below" if was < hours.low else "above" if was > hours.high else "inside"
    return (
        f"{run.key}: estimated: {text}, {choice.basis}, {choice.steps:,} steps; was: {was:.2f} node"
        f" hours, {place} the range, {spent}, {run.result.get('steps', 0):,} steps"
    )
