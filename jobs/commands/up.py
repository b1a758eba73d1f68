"""`python -m jobs up` and `preview`: Pulumi's commands, after a check of their requirements."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from common import text
from common.annotations import Pattern
from common.errors import INTERRUPTED, UserError
from common.files import write_atomically
from jobs.console import Console, next_command
from jobs.errors import LockedError, NotDeployedError, PlatformReadError
from jobs.pulumi import changes, prerequisites, retry_policy
from jobs.pulumi.cli import DeclinedError, Pulumi, UpdateFailedError
from jobs.pulumi.stack_outputs import read_outputs
from jobs.pulumi.state import StackResource, replaced_clusters
from jobs.spec.from_options import REPOSITORY

_Reason: TypeAlias = Annotated[
    str | None, Pattern(r"(?s).*[^\W\d_]{2}.*", "a reason in words, such as 'an outage'")
]
"""Why the security rules are not checked."""

_LIMIT: Final = text.duration(retry_policy.LIMIT_SECONDS)


@dataclass(frozen=True)
class UpOptions:
    """Deploy the platform of a stack, or the changes to it, after showing them."""

    yes: bool = False
    """Do not ask for confirmation."""

    refresh: bool = False
    """First compare the state with Azure, so that resources deleted there are created again."""

    without_rules: _Reason = None
    """Deploy without checking the security rules, for this reason, which the stack's history
    keeps."""


@dataclass(frozen=True)
class PreviewOptions:
    """Show what deploying would change, without changing anything."""

    markdown: str | None = None
    """File to write the changes to as Markdown, without values, for a comment on a pull request.
    Only their summary is then printed."""

    without_rules: _Reason = None
    """Do not check the security rules, for this reason."""


def run(options: UpOptions | PreviewOptions, *, as_json: bool, stack: str | None) -> int:
    """Deploy a stack, or show what that would change.

    First, Pulumi and the stack are checked; then Azure is asked for everything in the list of
    `jobs.pulumi.prerequisites`, before anything is changed; then Pulumi runs in the terminal.

    Returns:
        Exit status: 0, or 130 after Ctrl-C.

    Raises:
        UserError: A requirement of Pulumi is missing, or Pulumi failed.
    """
    console, name = Console(as_json=as_json), stack or "dev"
    pulumi = Pulumi(REPOSITORY, name)
    try:
        existing = pulumi.check()
    except NotDeployedError as error:
        raise NotDeployedError(
            f"stack {name}: does not exist yet. Create it once with `pulumi stack init {name}"
            " --secrets-provider ...`, and deploy it with `make up"
            f" STACK={name}`"
        ) from error
    require_prerequisites(pulumi, existing, console)
    if isinstance(options, PreviewOptions):
        _preview(pulumi, options, console)
        return 0
    try:
        _deploy(pulumi, options, console)
    except KeyboardInterrupt:
        console.note(
            "interrupted; run the same command again to continue: finished steps are not repeated"
        )
        return INTERRUPTED
    except (DeclinedError, LockedError):
        raise
    except UserError as error:
        raise UserError(f"{error}{_advice(pulumi)}") from error
    outputs = read_outputs(REPOSITORY, name, None)
    console.answer(
        {"stack": name, "workspace": outputs.workspace},
        f"stack {name}: workspace {outputs.workspace} in {outputs.resource_group};"
        f" `python -m jobs preflight --stack {name}` checks whether a run could start",
    )
    return 0


def _preview(pulumi: Pulumi, options: PreviewOptions, console: Console) -> None:
    if options.markdown is None:
        pulumi.preview(as_json=console.as_json, without_rules=options.without_rules)
        return
    changed = changes.read(pulumi.planned(without_rules=options.without_rules))
    write_atomically(Path(options.markdown), changes.preview_markdown(pulumi.stack, changed))
    console.answer(
        {"stack": pulumi.stack, "changes": [asdict(change) for change in changed]},
        f"stack {pulumi.stack}: {changes.summary(changed)}; see {options.markdown}",
    )


def _deploy(pulumi: Pulumi, options: UpOptions, console: Console) -> None:
    """Run Pulumi, and repeat it while Azure refuses operations that may succeed later.

    Raises:
        UserError: Pulumi failed for another reason, or Azure refused for too long.
    """
    since: dict[str, float] = {}
    pause = retry_policy.FIRST_PAUSE
    while True:
        try:
            pulumi.up(
                yes=options.yes,
                refresh=options.refresh,
                as_json=console.as_json,
                again=bool(since),
                without_rules=options.without_rules,
            )
        except UpdateFailedError as error:
            reasons, now = retry_policy.waiting(error.failed), time.monotonic()
            since = {name: since.get(name, now) for name in reasons}
            if not since:
                raise UserError(f"{error}{retry_policy.advice(error.failed)}") from error
            if now + pause - min(since.values()) > retry_policy.LIMIT_SECONDS:
                raise UserError(
                    f"{error}\nAzure has refused this for about {_LIMIT}:\n"
                    f"{text.listing(_refused(reasons))}"
                ) from error
            console.note(
                f"Azure refuses this for now:\n{text.listing(_refused(reasons))}\nThe deployment"
                f" continues in {pause:.0f} s, and again until {_LIMIT} after the first refusal;"
                " Ctrl-C ends it"
            )
            time.sleep(pause)
            pause = min(2 * pause, retry_policy.LONGEST_PAUSE)
        else:
            return


def _refused(reasons: Mapping[str, str]) -> list[str]:
    return [f"{name}: {why}" for name, why in reasons.items()]


def require_prerequisites(
    pulumi: Pulumi, existing: Sequence[StackResource], console: Console
) -> None:
    """Ask Azure for what the stack needs, before Pulumi starts.

    Raises:
        UserError: The settings are wrong, or Azure lacks something; nothing was changed.
    """
    checks = list(prerequisites.look(prerequisites.of_stack(pulumi), existing))
    for check in checks:
        if check.text.startswith(prerequisites.NOT_ASKED):
            console.note(f"{check.name}: {check.text}")
    problems = [f"{check.name}: {check.text}" for check in checks if not check.good]
    if problems:
        raise UserError("\n".join([f"stack {pulumi.stack}: nothing was changed", *problems]))


def _advice(pulumi: Pulumi) -> str:
    """Return what to do if Azure refused to delete a cluster that is replaced or removed."""
    try:
        planned = read_outputs(REPOSITORY, pulumi.stack, None)
        existing = pulumi.resources()
    except PlatformReadError:
        return ""
    again = next_command("up", "--refresh", "True")
    lines = [
        f"\nIf Azure refused to delete cluster {name}, run"
        f" `{next_command('teardown', '--cluster', name)}`, and then `{again}`"
        for name in replaced_clusters(existing, planned)
    ]
    return "".join(lines)
