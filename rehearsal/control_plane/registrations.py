"""Resource providers and features that a subscription has registered, and so may use."""

import threading
from typing import Final

from typing_extensions import override

from rehearsal.control_plane.arm_path import PROVIDER, ArmPath
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import Compute
from rehearsal.control_plane.store import Document

FEATURE: Final = "Microsoft.Compute/features"


class Registered(ResourceKind):
    """A resource provider or a feature, which a subscription can register."""

    def __init__(self, registrations: "Registrations", kind: str) -> None:
        """Apply the rules to the registrations of this kind."""
        self._registrations, self._show = registrations, registrations.computed[kind]

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() != "register":
            return None
        self._registrations.register(path.name)
        return Response(200, self._show(path))


class Registrations:
    """Registered kinds: all but those that a test takes away."""

    def __init__(self) -> None:
        """Start with everything registered."""
        self._missing: set[str] = set()
        self._lock = threading.Lock()

    def remove(self, name: str) -> None:
        """Take a provider away, such as Microsoft.KeyVault, or a feature, such as
        EncryptionAtHost.
        """
        with self._lock:
            self._missing.add(name.lower())

    def register(self, name: str) -> None:
        """Register a provider or a feature."""
        with self._lock:
            self._missing.discard(name.lower())

    def restore(self) -> None:
        """Register everything again."""
        with self._lock:
            self._missing.clear()

    @property
    def computed(self) -> dict[str, Compute]:
        """The documents of these kinds, which are not stored."""
        return {
            PROVIDER: self._provider,
            FEATURE: lambda path: {
                "name": f"Microsoft.Compute/{path.name}",
                "properties": {"state": self._state(path)},
            },
        }

    def _provider(self, path: ArmPath) -> Document:
        return {
            "id": path.id,
            "namespace": path.name,
            "registrationState": self._state(path),
            "resourceTypes": [],
        }

    def _state(self, path: ArmPath) -> str:
        with self._lock:
            return "NotRegistered" if path.name.lower() in self._missing else "Registered"
