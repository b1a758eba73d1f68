"""Properties of existing resources that cannot change: Azure keeps the old value without an error.

`refusals` is pure. `refuse_changes` makes the engine call it before an update, in a preview too, so
that such a change ends with an explanation instead of a success that did nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from infra.errors import PlatformError
from infra.resources import value_at


class ChangeError(PlatformError):
    """An update that Azure would silently not make."""

    subject = "update of existing resources"


@dataclass(frozen=True)
class ImmutableProperty:
    """A property that can only be set when a resource is created."""

    path: str
    """Dotted path of an input, such as `encryption.requireInfrastructureEncryption`."""
    why: str
    """What Azure does with a change, and what to do instead."""
    may_be_set_later: bool = False
    """Whether the property may be set later, and only unsetting it is impossible."""


def refusals(
    name: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    properties: Sequence[ImmutableProperty],
) -> list[str]:
    """Return why an update cannot be made; empty if it can.

    Args:
        name: name of the resource, as the user knows it.
        old: inputs of the last deployment.
        new: inputs of this deployment.
        properties: properties that cannot change.
    """
    problems = []
    for immutable in properties:
        before, after = value_at(old, immutable.path), value_at(new, immutable.path)
        if before == after or (immutable.may_be_set_later and not before):
            continue
        change = f"from {_shown(before)} to {_shown(after)}"
        problems.append(f"{name}: {immutable.path} cannot change {change}: {immutable.why}")
    return problems


def refuse_changes(name: str, properties: Sequence[ImmutableProperty]) -> pulumi.ResourceOptions:
    """Return options that refuse changes that Azure would silently ignore, in a preview as well.

    Args:
        name: logical name of the resource; the hook's name, unique in the program, is made from it.
        properties: properties that cannot change.
    """

    def check(args: pulumi.ResourceHookArgs) -> None:
        problems = refusals(name, args.old_inputs or {}, args.new_inputs or {}, properties)
        if problems:
            raise ChangeError(problems)

    hook = pulumi.ResourceHook(
        f"refuse-changes-{name}", check, pulumi.ResourceHookOptions(on_dry_run=True)
    )
    return pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_update=[hook]))


def _shown(setting: Any) -> str:
    """Return a value as the user wrote it: the engine makes every number a float."""
    return repr(int(setting) if isinstance(setting, float) and setting.is_integer() else setting)
