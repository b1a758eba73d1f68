"""Exit statuses of `python -m jobs` that are neither 0, nor an error's, nor Ctrl-C's."""

from typing import Final

CANCELED: Final = 20
"""The run was cancelled."""
NOT_RESUBMITTED: Final = 21
"""The run was interrupted, and not submitted again."""
POOR_CLUSTER: Final = 23
"""A check of the cluster found something poor."""
BROKEN_PIPE: Final = 141
"""Nobody reads what is printed; as a shell tells of a program that a closed pipe has ended."""
