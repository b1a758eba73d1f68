"""Errors that a user can act on: command lines print them without a traceback."""

from collections.abc import Sequence

INTERRUPTED = 130
"""Exit status of a command that was ended by Ctrl-C: 128 + SIGINT, as shells report it."""
PIPE_CLOSED = 141
"""Exit status of a command whose output is no longer read: 128 + SIGPIPE, as shells report it."""


class UserError(Exception):
    """An error that a user can correct; its message names the thing, its fault and the remedy."""

    exit_code = 1
    """Exit status of a command that ends with this error."""


class ProblemsError(UserError):
    """Several problems that a user can correct; the message lists all of them.

    Args:
        problems: The problems, one sentence each.
    """

    exit_code = 2
    subject = "configuration"
    """The thing that has the problems, for the first line of the message."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{head} in the {self.subject}:", *(f"  - {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))


class ConfigError(ProblemsError):
    """A configuration or a command line is invalid."""
