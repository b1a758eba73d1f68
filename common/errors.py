"""Errors that a person can act on: command lines print them without a traceback."""

from collections.abc import Sequence

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C has ended: 128 + SIGINT, as shells have it."""


class UserError(Exception):
    """Something that a user can correct; the message names the thing, what is wrong and what to
    do.
    """

    exit_code = 1
    """Exit status of a command that ends with this error."""


class ProblemsError(UserError):
    """Several things that a user can correct. Lists all of them, not only the first.

    Args:
        problems: one sentence each.
    """

    exit_code = 2
    subject = "configuration"
    """What the problems are in."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        head = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{head} in the {self.subject}:", *(f"  - {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))


class ConfigError(ProblemsError):
    """A configuration, or a command line, that cannot be run."""
