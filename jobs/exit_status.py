"""Exit statuses of `python -m jobs` other than 0, those of errors and of every program."""

from typing import Final

CANCELED: Final = 20
"""The run was cancelled."""
NOT_RESUBMITTED: Final = 21
"""The run was interrupted, and not submitted again."""
POOR_CLUSTER: Final = 23
"""The cluster check found a problem."""
BUDGET_USED: Final = 24
"""The run has used up its budget; its state is saved."""
DRIFT: Final = 26
"""Resources of the stack were changed outside of Pulumi."""
