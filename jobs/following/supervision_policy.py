"""Decide what one look at a run's newest attempt has to do. Pure.

A run asks for supervision by a tag of its attempts, which holds when it is submitted again. So
every supervisor, on any machine, has the same options.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Literal

from common import fields
from common.errors import ConfigError, UserError
from jobs.exit_status import BUDGET_USED, CANCELED, NOT_RESUBMITTED
from jobs.following.resubmit_policy import RESULT_UNKNOWN, Resubmit, Stop
from jobs.options import ResubmitOptions
from jobs.spec.tags import SUPERVISE

Event = Literal[
    "completed", "failed", "canceled", "budget", "interrupted", "resubmitted", "unknown"
]
"""What happened to an attempt. budget: it has used up the budget of its run. interrupted: it was
interrupted, and the run is not submitted again."""


@dataclass(frozen=True)
class Look:
    """The action that a look at a run has to take."""

    action: Literal["wait", "submit", "conclude"]
    text: str
    """What to print about the run."""
    event: Event | None = None
    """What to notify of; None while the run continues."""


def mark(options: ResubmitOptions) -> dict[str, str]:
    """Return the tag by which a run asks for supervision."""
    # Without the options that are not limited, so that an earlier version reads it too.
    given = {name: value for name, value in asdict(options).items() if value is not None}
    return {SUPERVISE: json.dumps(given, sort_keys=True)}


def marked_options(tags: Mapping[str, str]) -> ResubmitOptions:
    """Return when a run that asks for supervision is submitted again.

    Args:
        tags: Tags of one of its attempts.

    Raises:
        UserError: The tag cannot be read.
    """
    try:
        value = json.loads(tags[SUPERVISE])
        if not isinstance(value, dict):
            raise TypeError("it is not an object")  # noqa: TRY301 one message for all
        return fields.from_dict(ResubmitOptions, value)
    except (ValueError, TypeError, ConfigError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"the tag {SUPERVISE!r} cannot be read ({reason}); update this project, or follow the"
            " run with --supervise and --resubmit options other than the defaults"
        ) from None


def look(decision: Resubmit | Stop, ended: datetime | None, now: datetime) -> Look:
    """Decide what to do about an attempt that has ended.

    Args:
        decision: Decision of the resubmission policy.
        ended: Time at which the attempt ended, or None if it is unknown.
        now: Current time.
    """
    if isinstance(decision, Stop):
        return Look("conclude", decision.reason, event_of(decision))
    due = now if ended is None else ended + timedelta(seconds=decision.delay)
    if now < due:
        seconds = (due - now).total_seconds()
        return Look("wait", f"{decision.reason}, in {seconds:.0f} s at the earliest")
    return Look("submit", decision.reason, "resubmitted")


def event_of(stop: Stop) -> Event:
    """Return the event of a run that is not submitted again."""
    known: Mapping[int, Event] = {
        0: "completed",
        CANCELED: "canceled",
        BUDGET_USED: "budget",
        NOT_RESUBMITTED: "interrupted",
        RESULT_UNKNOWN: "unknown",
    }
    return known.get(stop.exit_code, "failed")
