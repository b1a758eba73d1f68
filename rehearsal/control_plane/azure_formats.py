"""Times, durations, ids and errors of runs, as Azure writes them. Pure."""

import datetime as dt
import re
import uuid
from typing import Any

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def timestamp() -> str:
    """The current time."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


def new_id() -> str:
    """A GUID that nothing else has."""
    return str(uuid.uuid4())


def duration_seconds(duration: str) -> float:
    """Seconds of an ISO 8601 duration of days and less, such as PT6H.

    Raises:
        ValueError: the text is no such duration.
    """
    match = _DURATION.fullmatch(duration)
    if match is None or not any(match.groups()):
        raise ValueError(f"{duration!r} is not a duration")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def run_error(code: str, message: str) -> dict[str, Any]:
    """An error in the form that runs have it."""
    return {"error": {"code": code, "message": message, "details": []}}
