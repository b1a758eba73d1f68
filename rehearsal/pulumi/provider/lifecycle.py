"""The life of a resource: checked, compared, made, read, changed and deleted. No protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.pulumi.provider import bodies
from rehearsal.pulumi.provider.arm_client import Manager, RefusedError
from rehearsal.pulumi.provider.types.resource_type import ResourceType, identifier
from rehearsal.pulumi.provider.values import UNKNOWN, holds_unknown


@dataclass(frozen=True)
class Found:
    """A resource as it is in Azure."""

    id: str
    outputs: dict[str, Any]
    inputs: dict[str, Any]


class Declared:
    """Resources of one subscription.

    Args:
        manager: Resource Manager.
        subscription: its id.
    """

    def __init__(self, manager: Manager, subscription: str) -> None:
        self.manager, self.subscription = manager, subscription

    def create(self, type_: ResourceType, inputs: Mapping[str, Any]) -> Found:
        """Make what is not there yet.

        Raises:
            RefusedError: Azure refuses it, or it is there already.
        """
        id_ = identifier(type_, inputs, self.subscription)
        there = None if type_.comes_with_parent else self.manager.get(id_, type_.api_version)
        if there is not None:
            raise RefusedError(f"cannot create already existing resource '{id_}'")
        return self._put(type_, id_, inputs)

    def update(self, type_: ResourceType, id_: str, inputs: Mapping[str, Any]) -> Found:
        """Change what is there.

        Raises:
            RefusedError: Azure refuses it.
        """
        return self._put(type_, id_, inputs)

    def read(
        self,
        type_: ResourceType,
        id_: str,
        inputs: Mapping[str, Any],
        recorded: Mapping[str, Any],
    ) -> Found | None:
        """What is there, with the inputs that would make it so; none if nothing is there.

        Args:
            type_: of the resource.
            id_: of the resource.
            inputs: that it was made or last changed with.
            recorded: outputs of then.

        Raises:
            RefusedError: Azure refuses to show it.
        """
        document = self.manager.get(id_, type_.api_version)
        if document is None:
            return None
        outputs = bodies.outputs(type_, document)
        return Found(id_, outputs, bodies.drifted(type_, inputs, recorded, outputs))

    def delete(self, type_: ResourceType, id_: str) -> None:
        """Delete it; what comes with another resource only loses its settings.

        Raises:
            RefusedError: Azure refuses it.
        """
        if not type_.comes_with_parent:
            self.manager.delete(id_, type_.api_version)
        elif self.manager.get(id_, type_.api_version) is not None:
            self.manager.put(id_, type_.api_version, {"properties": {}})

    def foreseen(
        self, type_: ResourceType, inputs: Mapping[str, Any], recorded: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Outputs as far as a preview can know them: what Azure computes is left out, or unknown
        inside of what was given.

        Args:
            type_: of the resource.
            inputs: that are to be.
            recorded: outputs of what is there; empty if nothing is.
        """
        identity = inputs.get("identity")
        known = {name: value for name, value in inputs.items() if name != "identity"}
        if identity is not None and not holds_unknown(identity) and "identity" in recorded:
            known["identity"] = recorded["identity"]
        for path in type_.computed:
            outer, _, inner = path.partition(".")
            if isinstance(known.get(outer), dict):
                before = recorded.get(outer, {}).get(inner, UNKNOWN)
                known[outer] = {inner: before, **known[outer]}
        return {**recorded, **known}

    def _put(self, type_: ResourceType, id_: str, inputs: Mapping[str, Any]) -> Found:
        document = self.manager.put(id_, type_.api_version, bodies.body(type_, inputs))
        return Found(id_, bodies.outputs(type_, document), dict(inputs))
