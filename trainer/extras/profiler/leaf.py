"""Options of the profiler. Standard library only."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from common.annotations import Formerly
from trainer.leaf import Leaf

_SPAN = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


@dataclass(frozen=True)
class ProfileOptions:
    """Steps to record."""

    steps: Annotated[str | None, Formerly("profile_steps", moved=True)] = None
    """A:B records what rank 0 does after step A up to step B, 1 <= A < B, for TensorFlow's
    profiler; each of these steps is a separate call. Three to five steps are enough."""

    @property
    def span(self) -> tuple[int, int] | None:
        """Steps done where the recording begins and ends; None if there is none, or the text is of
        another form.
        """
        match = _SPAN.fullmatch(self.steps or "")
        return (int(match[1]), int(match[2])) if match else None


def _problems(config: Any) -> list[str]:
    options = config.of(ProfileOptions)
    if options.steps is None or (options.span and 1 <= options.span[0] < options.span[1]):
        return []
    return [
        f"--profile.steps: {options.steps!r} must be A:B with 1 <= A < B, such as 10:15; the first"
        " step is compilation"
    ]


LEAF = Leaf(
    key="profile",
    options=ProfileOptions,
    on_resume="unreported",
    problems=_problems,
    observer="trainer.extras.profiler.observer:ProfileObserver",
)
