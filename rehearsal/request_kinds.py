"""What a recorded request asked for, without the names of anything. Pure."""

from typing import Literal

Service = Literal["resource manager", "blob storage", "run history", "sign-in", "metrics"]


def classify(method: str, path: str, query: str) -> tuple[Service, str]:
    """The service that a request went to, and what it asked for."""
    return "resource manager", "requests"
