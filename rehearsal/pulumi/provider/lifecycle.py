"""A resource's life cycle: preview, create, read, update, delete. Independent of the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.pulumi.provider import bodies
from rehearsal.pulumi.provider.arm_client import ArmClient, RefusedError
from rehearsal.pulumi.provider.resource_type import ResourceType, identifier
from rehearsal.pulumi.provider.values import UNKNOWN, holds_unknown


@dataclass(frozen=True)
class ResourceState:
    """A resource as it is in Azure."""

    id: str
    outputs: dict[str, Any]
    inputs: dict[str, Any]


class PartlyCreatedError(RefusedError):
    """Azure created a resource, and then reported an error."""

    def __init__(self, message: str, state: ResourceState) -> None:
        super().__init__(message)
        self.state = state
        """The resource as it is."""


class DeclaredResources:
    """Resources of one subscription.

    Args:
        client: Client of Resource Manager.
        subscription: Id of the subscription.
    """

    def __init__(self, client: ArmClient, subscription: str) -> None:
        self.client, self.subscription = client, subscription

    def create(self, type_: ResourceType, inputs: Mapping[str, Any]) -> ResourceState:
        """Create a resource that does not exist yet.

        Raises:
            PartlyCreatedError: Azure reports an error, but has created it.
            RefusedError: Azure refuses it, or the resource exists already.
        """
        id_ = identifier(type_, inputs, self.subscription)
        existing = None if type_.comes_with_parent else self.client.get(id_, type_.api_version)
        if existing is not None:
            raise RefusedError(f"cannot create already existing resource '{id_}'")
        try:
            return self._put(type_, id_, inputs)
        except RefusedError as error:
            document = None if type_.comes_with_parent else self.client.get(id_, type_.api_version)
            if document is None:
                raise
            state = ResourceState(id_, bodies.outputs(type_, document), dict(inputs))
            raise PartlyCreatedError(str(error), state) from error

    def update(self, type_: ResourceType, id_: str, inputs: Mapping[str, Any]) -> ResourceState:
        """Update an existing resource.

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
    ) -> ResourceState | None:
        """Return the current state, with the inputs that would produce it; None if there is none.

        Args:
            type_: Type of the resource.
            id_: Id of the resource.
            inputs: Inputs of the last deployment.
            recorded: Outputs of the last deployment.

        Raises:
            RefusedError: Azure refuses the request.
        """
        document = self.client.get(id_, type_.api_version)
        if document is None:
            return None
        outputs = bodies.outputs(type_, document)
        return ResourceState(id_, outputs, bodies.drifted(type_, inputs, recorded, outputs))

    def delete(self, type_: ResourceType, id_: str) -> None:
        """Delete a resource; one that exists with its parent only loses its settings.

        Raises:
            RefusedError: Azure refuses it.
        """
        if not type_.comes_with_parent:
            self.client.delete(id_, type_.api_version)
        elif self.client.get(id_, type_.api_version) is not None:
            self.client.put(id_, type_.api_version, {"properties": {}})

    def foresee(
        self, type_: ResourceType, inputs: Mapping[str, Any], recorded: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the outputs that a preview can know: what Azure computes is left out, or unknown
        inside given objects.

        Args:
            type_: Type of the resource.
            inputs: Inputs of the next deployment.
            recorded: Outputs of the existing resource; empty if there is none.
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

    def _put(self, type_: ResourceType, id_: str, inputs: Mapping[str, Any]) -> ResourceState:
        document = self.client.put(id_, type_.api_version, bodies.body(type_, inputs))
        return ResourceState(id_, bodies.outputs(type_, document), dict(inputs))
