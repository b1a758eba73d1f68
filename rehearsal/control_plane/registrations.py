"""Resource providers and features that a subscription has registered, and so may use."""

import threading
from typing import Final

from rehearsal.control_plane.arm_path import PROVIDER, ArmPath
from rehearsal.control_plane.resource_manager import Compute

_FEATURE: Final = "Microsoft.Compute/features"


class Registrations:
    """What is registered: everything, but for what a test takes away."""

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

    def restore(self) -> None:
        """Register everything again."""
        with self._lock:
            self._missing.clear()

    @property
    def computed(self) -> dict[str, Compute]:
        """The documents of these kinds, which are not stored."""
        return {
            PROVIDER: lambda path: {"namespace": path.name, "registrationState": self._state(path)},
            _FEATURE: lambda path: {
                "name": f"Microsoft.Compute/{path.name}",
                "properties": {"state": self._state(path)},
            },
        }

    def _state(self, path: ArmPath) -> str:
        with self._lock:
            return "NotRegistered" if path.name.lower() in self._missing else "Registered"
