"""Whether a job has lost its nodes to Azure, as far as it tells. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from trainer.errors import RUNNING, STOP_STATUSES

_EVIDENCE: Final = re.compile(
    r"PreemptionError|\bpre-?empt(?:ed|ion)\b"
    r"|\bNodeLost\b|\bnodes? (?:(?:was|were|is|are|has been|have been) )?lost\b",
    re.IGNORECASE,
)
"""Messages about pre-empted or lost nodes. Users report PreemptionError and its text
(Azure/MachineLearningNotebooks, issue 1242). How Azure reports a lost node is not documented; where
the words differ, the trainer's exit status decides."""


def evidence(messages: Sequence[str]) -> str | None:
    """Return the first of Azure's messages about pre-empted or lost nodes, or None."""
    return next((text for text in messages if _EVIDENCE.search(text)), None)


def is_evicted(messages: Sequence[str], reported: str | None, exit_code: int | None) -> bool:
    """Return whether a job has lost nodes: Azure says so, its program reported no end, or the
    program was asked to stop. The job has ended without success and was not cancelled by a user.

    Args:
        messages: Azure's messages.
        reported: Exit status that the program has reported, or `RUNNING`.
        exit_code: Its exit status; None if unknown.
    """
    vanished = reported == RUNNING and not messages
    return evidence(messages) is not None or vanished or exit_code in STOP_STATUSES
