"""The trials of a sweep as runs of their own, which survive Spot nodes as every run does."""

import sys
from contextlib import redirect_stdout
from dataclasses import fields, replace
from typing import Any, Final

from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.commands import submit
from jobs.commands.submit import SubmitOptions
from jobs.console import Console, next_command, table
from jobs.extras.sweep.sweep import Sweep, Trial

_HEADS: Final = ("trial", "state", "options")


def one_gpu(outputs: PlatformOutputs) -> str | None:
    """Return the training cluster whose nodes have one GPU, by its name in the stack's settings;
    None without one.
    """
    clusters = (
        key
        for key, cluster in outputs.clusters.items()
        if cluster.duty == "train" and cluster.gpus_per_node == 1
    )
    return next(clusters, None)


def trial_options(options: SubmitOptions, name: str, trials: int) -> SubmitOptions:
    """Return the options with which one of several trials is submitted: it has an equal part of the
    budget, and nothing waits for its end.
    """
    given: dict[str, Any] = {
        field.name: getattr(options, field.name) for field in fields(SubmitOptions)
    }
    budget = None if options.budget is None else options.budget / trials
    return replace(SubmitOptions(**given), name=name, budget=budget, no_follow=True)


def submit_trials(
    options: SubmitOptions,
    outputs: PlatformOutputs,
    sweep: Sweep,
    *,
    as_json: bool,
    program: tuple[str, ...],
) -> int:
    """Submit the trials that were not submitted yet, and print all of them.

    Returns:
        Exit status: that of the first trial that could not be submitted, or 0.
    """
    console = Console(as_json=as_json)
    named = {trial.name_in(str(options.name)): trial for trial in sweep.all_trials}
    jobs = connect(outputs).jobs
    attempts = {name: jobs.attempts(name) for name in named}
    status = 0
    for name, trial in named.items():
        if attempts[name] or status:
            continue
        console.say(f"{name}: {' '.join(trial.flags)}")
        own, words = trial_options(options, name, len(named)), (*program, *trial.flags)
        # The answer of a trial is progress of the sweep.
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            status = submit.run(own, outputs, as_json=False, program=words)
        attempts[name] = () if options.dry_run else jobs.attempts(name)
    rows = [_row(name, trial, attempts[name]) for name, trial in named.items()]
    after = [
        f"{next_command('supervise')}    submits trials again whose Spot nodes were taken",
        f"{next_command('compare', *named)}    compares them: table and page",
    ]
    console.answer(
        {"trials": [dict(zip(_HEADS, row, strict=True)) for row in rows]},
        "\n".join([plural(len(named), "trial"), table(_HEADS, rows), *after]),
    )
    return status


def _row(name: str, trial: Trial, attempts: tuple[Any, ...]) -> tuple[str, str, str]:
    state = attempts[-1].status if attempts else "not submitted"
    return name, state, " ".join(trial.flags)
