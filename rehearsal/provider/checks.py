"""What Azure would refuse of a resource's inputs, as far as it can be known here. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.provider.resource_type import ResourceType, is_name, own_name
from rehearsal.provider.values import at, is_unknown


@dataclass(frozen=True)
class Problem:
    """What is wrong with an input."""

    path: str
    reason: str


def problems(type_: ResourceType, inputs: Mapping[str, Any]) -> list[Problem]:
    """All that is wrong; what is not known yet is not judged."""
    found = [
        Problem(name, f"there is no input {name!r}") for name in sorted(inputs.keys() - type_.known)
    ]
    identifying = [*([type_.scope] if type_.scope else []), *type_.names]
    found += [
        Problem(path, "is required and missing")
        for path in [*identifying, *sorted(type_.required)]
        if not any(True for _ in at(inputs, path))
    ]
    name = inputs.get(type_.names[-1])
    if name is not None and not is_unknown(name) and not is_name(type_, str(name)):
        wanted = f"{own_name(type_, inputs)!r} does not match {type_.name_form}"
        found.append(Problem(type_.names[-1], wanted))
    for path, allowed in sorted(type_.values.items()):
        for value in at(inputs, path):
            if not is_unknown(value) and value not in allowed:
                words = ", ".join(sorted(str(one) for one in allowed))
                found.append(Problem(path, f"{value!r} is none of {words}"))
    return found
