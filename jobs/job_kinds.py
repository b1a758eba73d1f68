"""The kinds of job, a row each; leaves add theirs. Pure."""

from collections.abc import Mapping
from typing import Final

from jobs.leaf import JobKind
from jobs.leaves import LEAVES

_TRUNK: Final = (
    JobKind("train", trains=True),
    JobKind("smoke", trains=True, plain=True, hours=2.0),
    JobKind("benchmark", trains=True),
    JobKind("check", hours=2.0, continues=None),
    JobKind(
        "prepare",
        duty="prepare",
        continues="skips what it has written",
        unfollowed="its data set is registered once `follow` sees the job complete",
        completed="jobs.assets.prepared_data:register_completed",
    ),
)

KINDS: Final[Mapping[str, JobKind]] = {
    kind.name: kind for kind in (*_TRUNK, *(kind for leaf in LEAVES for kind in leaf.kinds))
}


def kind_of(name: str) -> JobKind:
    """Return a kind of job by its tag; a job of an unknown kind is one of training."""
    return KINDS.get(name, KINDS["train"])


def trains(name: str) -> bool:
    """Whether jobs of a kind train, so that their run has checkpoints and a result."""
    return name in KINDS and KINDS[name].trains
