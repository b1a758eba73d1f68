"""Errors that a person can act on: each problem names the key, the value and what is allowed."""

from collections.abc import Sequence


class PlatformError(Exception):
    """Something a user can mend. Lists every problem at once, not only the first."""

    subject = "platform"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{head} in the {self.subject}:", *(f"  - {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))


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
