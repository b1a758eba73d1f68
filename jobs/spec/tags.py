"""Tags of jobs by which commands on different machines work together."""

from typing import Final

SUPERVISE: Final = "supervise"
"""Tag of a run that asks for supervision; its value is the run's `ResubmitOptions` as JSON."""

OUTCOME: Final = "outcome"
"""Tag of an attempt once a supervisor has seen how it ended."""

NOTIFIED: Final = "notified"
"""Tag of an attempt that a webhook has accepted a notice about."""
