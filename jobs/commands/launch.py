"""What jobs that work by units share: they are submitted, followed, and submitted again."""

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from common.errors import INTERRUPTED
from common.prices import money
from infra.outputs import PlatformOutputs
from jobs.azure import submission
from jobs.azure.costs import read_prices
from jobs.azure.workspace import Workspace
from jobs.commands.follow import WatchOptions, make_supervisor
from jobs.commands.submit import carry_out, register_image
from jobs.console import Console
from jobs.errors import RequestError
from jobs.following.supervision_policy import mark
from jobs.options import AttemptOptions
from jobs.spec import from_options, summary
from jobs.spec.builder import SoftwareVersions
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt, new_key


@dataclass(frozen=True)
class LaunchOptions(AttemptOptions, WatchOptions):
    """How such a job is submitted and followed."""

    name: str | None = None
    """Key of the run; None is the kind of work, the time and random letters. With the key of one
    that has ended, resume that."""

    no_follow: bool = False
    """Exit once the job is submitted."""


def launch(
    options: LaunchOptions,
    outputs: PlatformOutputs,
    workspace: Workspace,
    console: Console,
    label: str,
    make: Callable[[RunAttempt, SoftwareVersions], JobSpec],
) -> int:
    """Print a summary with the costs, submit a job, and follow it to its end.

    Args:
        options: How it is submitted and followed.
        outputs: Outputs of the stack.
        workspace: Workspace of the stack.
        console: Output of the command.
        label: First part of the key of a run without a name.
        make: Builds the job of an attempt.

    Returns:
        Exit status.
    """
    settings = options.settings()
    key = options.name or new_key(label, datetime.now(UTC), secrets.token_hex(2))
    software, attempt = from_options.read_software(), RunAttempt(key)
    spec = make(attempt, software.versions)
    resubmits = spec.cluster.priority == "LowPriority"
    if resubmits:
        spec = replace(spec, tags={**spec.tags, **mark(options.resubmit)})
    try:
        if options.name is not None:
            spec = spec.for_attempt(submission.free_attempt(workspace.jobs, attempt))
        submission.look_up(workspace.manager, spec)
        console.say(summary.lines(spec, None, None, None))
        console.say(f"  {_price(workspace, spec)}")
        register_image(console, workspace, spec, software)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was submitted", file=sys.stderr)
        return INTERRUPTED
    supervisor = make_supervisor(
        workspace, outputs, console, settings, options.resubmit, resubmits=resubmits
    )
    return carry_out(workspace, supervisor, spec, software, None, no_follow=options.no_follow)


def _price(workspace: Workspace, spec: JobSpec) -> str:
    """Say what a job costs while it runs."""
    cluster = spec.cluster
    try:
        price = read_prices(workspace.manager).find(cluster.size, cluster.priority)
    except RequestError:
        price = None
    if price is None:
        return f"cost: unknown, as Azure states no price of {cluster.priority} {cluster.size}"
    each = f", {money(price.amount, price.currency)} each" if spec.nodes > 1 else ""
    return f"cost: {money(price.amount * spec.nodes, price.currency)} an hour{each}"
