"""Errors in a platform that are found before it is deployed."""

from common.errors import ProblemsError


class PlatformError(ProblemsError):
    """Settings, outputs or updates that cannot be used for a platform."""

    subject = "platform"


class SettingsError(PlatformError):
    """A stack configuration from which no platform can be declared."""

    subject = "stack's configuration"


class OutputsError(PlatformError):
    """Outputs of a stack that this version of the project cannot read."""

    subject = "platform's outputs"


class NamingError(PlatformError):
    """A prefix, stack and region that give no names within Azure's rules."""

    subject = "names"


class AddressError(PlatformError):
    """An address space that the platform's subnets do not fit into."""

    subject = "address plan"
