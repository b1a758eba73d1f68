"""What the commands of leaves do in the fault matrix."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from common.program import REPORTED, report
from jobs.pipelines import comment
from jobs.pipelines.comment import CommentOptions
from tests.jobs.faults.github import VARIABLES
from tests.jobs.faults.trial import Trial

if TYPE_CHECKING:
    from tests.jobs.faults.scenarios import Scenarios


def _run(command: Callable[[], int], variables: Mapping[str, str]) -> Callable[[], int]:
    """Return a function that runs a command as the command line does."""

    def run() -> int:
        try:
            with patch.dict(os.environ, variables):
                return command()
        except REPORTED as error:
            return report(error)

    return run


def write_comment(world: "Scenarios") -> Trial:
    """Write a preview as a comment on a pull request."""
    page = world.folder / "preview.md"
    page.write_text("<!-- preview of dev -->\nNothing changes.\n")
    options = CommentOptions(page=str(page), pull_request=7)

    def problem() -> str | None:
        written = list(world.azure.github.comments.values())
        return None if written == [page.read_text()] else f"{len(written)} comments"

    command = _run(lambda: comment.run(options, as_json=False, stack=None), VARIABLES)
    return Trial(command, problem)


ALL: Final[Mapping[str, Callable[["Scenarios"], Trial]]] = {
    "comment": write_comment,
}
"""Functions that prepare a command, by its name in the table."""
