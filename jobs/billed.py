"""The resources of a workspace that cost money by the hour, a row each; leaves add theirs.

`status` shows them in this order, and `teardown` deletes them in the reverse order. Pure.
"""

from typing import Final

from jobs.leaf import Billed
from jobs.leaves import LEAVES

BILLED: Final = (
    Billed("jobs.commands.status:nodes", "jobs.pulumi.teardown_steps:delete_nodes"),
    *(leaf.billed for leaf in LEAVES if leaf.billed),
)
