"""Times, durations, ids and errors of runs in Azure's formats. Pure."""

import datetime as dt
import re
import uuid
from typing import Any

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def timestamp(days: float = 0) -> str:
    """Return the current time, or that after some days."""
    when = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    return when.isoformat(timespec="microseconds")


def new_id() -> str:
    """Return a new GUID."""
    return str(uuid.uuid4())


def duration_seconds(duration: str) -> float:
    """Return the seconds of an ISO 8601 duration of days or smaller units, such as PT6H.

    Raises:
        ValueError: the text is not such a duration.
    """
    match = _DURATION.fullmatch(duration)
    if match is None or not any(match.groups()):
        raise ValueError(f"{duration!r} is not a duration")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def run_error(code: str, message: str) -> dict[str, Any]:
    """Return an error in the format of runs."""
    return {"error": {"code": code, "message": message, "details": []}}
