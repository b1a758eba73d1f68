"""Changes in a preview of Pulumi, in words and as Markdown. Pure.

Names of resources and properties only: comments and logs have more readers than Pulumi's state, so
no value gets into them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal

from common import text
from jobs.errors import PlatformReadError
from jobs.pulumi.state import name_of

Operation = Literal["delete", "replace", "create", "update"]

_OPERATIONS: Final[Mapping[str, Operation]] = {
    "delete": "delete",
    "replace": "replace",
    "create-replacement": "replace",
    "delete-replaced": "replace",
    "create": "create",
    "update": "update",
}
"""Operations by Pulumi's names, those that can lose something first. All others change nothing."""
_ORDER: Final = tuple(dict.fromkeys(_OPERATIONS.values()))
_DRIFT: Final[Mapping[Operation, str]] = {"delete": "does not exist any more"}
_MOST_CHARACTERS: Final = 60_000
"""Characters of a table: GitHub accepts 65,536 in a comment."""
_MOST_PROPERTIES: Final = 12


@dataclass(frozen=True)
class Change:
    """A change of a resource by a deployment, or outside of Pulumi."""

    name: str
    """Name in the Pulumi program."""
    kind: str
    """Type in Pulumi, such as azure-native:storage:StorageAccount."""
    operation: Operation
    properties: tuple[str, ...]
    """Paths of the properties that differ; empty for one that is created or deleted."""


def read(document: Mapping[str, Any]) -> list[Change]:
    """Return the changes in a preview, those that delete something first.

    Args:
        document: What `pulumi preview --json` or `pulumi refresh --preview-only --json` prints.

    Raises:
        PlatformReadError: The document has another form.
    """
    planned: dict[str, Change] = {}
    try:
        for step in document.get("steps") or ():
            operation = _OPERATIONS.get(step["op"])
            state = step.get("newState") or step.get("oldState") or {}
            if operation is not None and state.get("custom"):
                change = _change(step, str(state["type"]), operation)
                known = planned.get(step["urn"])
                if known is None or not known.properties:
                    planned[step["urn"]] = change
    except (KeyError, TypeError, AttributeError) as error:
        raise PlatformReadError(
            f"pulumi: the preview has an unexpected format ({error!r})"
        ) from error
    return sorted(
        planned.values(),
        key=lambda change: (_ORDER.index(change.operation), change.kind, change.name),
    )


def _change(step: Mapping[str, Any], kind: str, operation: Operation) -> Change:
    paths = step.get("detailedDiff") or step.get("diffReasons") or ()
    differ = tuple(sorted(paths)) if operation in ("update", "replace") else ()
    return Change(name_of(str(step["urn"])), kind, operation, differ)


def summary(changes: Sequence[Change]) -> str:
    """Return how many resources a deployment would change, such as "2 to create, 1 to update"."""
    counts = Counter(change.operation for change in changes)
    return (
        ", ".join(
            f"{counts[operation]} to {operation}" for operation in _ORDER if counts[operation]
        )
        or "no changes"
    )


def drift_lines(changes: Iterable[Change]) -> list[str]:
    """Return a sentence for each resource that was changed outside of Pulumi."""
    return [
        f"{change.name} ({change.kind}): "
        + _DRIFT.get(change.operation, f"differs in {_paths(change)}")
        for change in changes
    ]


def preview_markdown(stack: str, changes: Sequence[Change]) -> str:
    """Return the comment that shows what a deployment would change. Its first line marks it."""
    lost = [change for change in changes if change.operation in ("delete", "replace")]
    lines = [marker(stack), f"### Preview of stack `{stack}`", "", f"{summary(changes)}."]
    if lost:
        names = ", ".join(f"`{change.name}`" for change in lost[:_MOST_PROPERTIES])
        lines += ["", f"**Deletes or replaces {text.plural(len(lost), 'resource')}**: {names}"]
    return "\n".join([*lines, *_table("would", changes), ""])


def drift_markdown(stack: str, changes: Sequence[Change]) -> str:
    """Return the page that shows what differs between Pulumi's state and Azure."""
    count = text.plural(len(changes), "resource")
    sentence = f"{count} changed outside of Pulumi." if changes else "No drift."
    return "\n".join([f"### Drift of stack `{stack}`", "", sentence, *_table("drift", changes), ""])


def marker(stack: str) -> str:
    """Return the line that marks the comment of a stack, which a later preview replaces."""
    return f"<!-- preview of stack {stack} -->"


def _table(head: str, changes: Sequence[Change]) -> list[str]:
    if not changes:
        return []
    rows = [
        f"| {change.operation} | `{change.name}` | {change.kind} | {_cell(change)} |"
        for change in changes
    ]
    ends = accumulate(len(row) + 1 for row in rows)
    rows = [row for row, end in zip(rows, ends, strict=True) if end <= _MOST_CHARACTERS]
    more = len(changes) - len(rows)
    rows += [f"\n{text.plural(more, 'further resource')} are left out."] if more else []
    return ["", f"| {head} | resource | type | properties |", "|---|---|---|---|", *rows]


def _cell(change: Change) -> str:
    return _paths(change).replace("|", "\\|")


def _paths(change: Change) -> str:
    shown = ", ".join(change.properties[:_MOST_PROPERTIES])
    more = len(change.properties) - _MOST_PROPERTIES
    return f"{shown} and {more} more" if more > 0 else shown
