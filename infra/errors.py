"""What can go wrong with a platform before it is declared."""

from common.errors import ProblemsError


class PlatformError(ProblemsError):
    """Settings, outputs or changes that no platform can be made of."""

    subject = "platform"


class SettingsError(PlatformError):
    """A stack configuration from which no platform can be declared."""

    subject = "stack's configuration"


class OutputsError(PlatformError):
    """Outputs of a stack that this version of the project cannot read."""

    subject = "platform's outputs"


class NamingError(PlatformError):
    """A prefix, stack and region from which no names within Azure's rules can be made."""

    subject = "names"


class AddressError(PlatformError):
    """An address space that the platform's subnets do not fit into."""

    subject = "address plan"
