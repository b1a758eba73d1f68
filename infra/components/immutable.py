"""What cannot be changed on a resource that exists: Azure keeps the old value, without an error.

`refusals` is pure; `guarded` lets the engine ask it before an update, in a preview too, so that
such a change ends with an explanation instead of a success that did nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.errors import PlatformError


class ChangeError(PlatformError):
    """A change that Azure would not make."""

    subject = "change of what exists"


@dataclass(frozen=True)
class Fixed:
    """A property that is decided when a resource is made."""

    path: str
    """Dotted path of an input, such as `encryption.requireInfrastructureEncryption`."""
    why: str
    """What Azure does with a change, and what to do instead."""
    may_be_set_later: bool = False
    """Whether only taking it back is impossible."""


def value(inputs: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path; None where nothing does."""
    found: Any = inputs
    for part in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def refusals(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], fixed: Sequence[Fixed]
) -> list[str]:
    """Why a change cannot be made; empty when it can.

    Args:
        name: of the resource, as the user knows it.
        old: inputs that it was made or last changed with.
        new: inputs that it shall have.
        fixed: its properties that cannot change.
    """
    found = []
    for one in fixed:
        before, after = value(old, one.path), value(new, one.path)
        if before == after or (one.may_be_set_later and not before):
            continue
        change = f"from {_shown(before)} to {_shown(after)}"
        found.append(f"{name}: {one.path} cannot change {change}: {one.why}")
    return found


def guarded(name: str, fixed: Sequence[Fixed]) -> pulumi.ResourceOptions:
    """Options that refuse to change what Azure would silently keep, in a preview as well.

    Args:
        name: logical name of the resource; hooks of a program must have names of their own.
        fixed: its properties that cannot change.
    """

    def check(args: pulumi.ResourceHookArgs) -> None:
        found = refusals(name, args.old_inputs or {}, args.new_inputs or {}, fixed)
        if found:
            raise ChangeError(found)

    hook = pulumi.ResourceHook(
        f"refuse-changes-{name}", check, pulumi.ResourceHookOptions(on_dry_run=True)
    )
    return pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_update=[hook]))


def _shown(found: Any) -> str:
    """A value as a person gave it: the engine makes every number a float."""
    return repr(int(found) if isinstance(found, float) and found.is_integer() else found)
