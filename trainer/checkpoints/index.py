"""`index.json`: what is in a checkpoint folder, for people and other tools.

The trainer itself never reads it: everything follows from the folders, so an index that is missing,
torn or out of date does no harm.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trainer.checkpoints.filesystem import Files
from trainer.checkpoints.names import checkpoint_name
from trainer.checkpoints.retention_policy import Entry, best

SCHEMA = 1
INDEX = "index.json"
_SCRATCH = ".index.json.partial"


def write(files: Files, folder: Path, valid: Sequence[Entry]) -> None:
    """Write the index, whole or not at all.

    Args:
        files: where.
        folder: of the checkpoints.
        valid: all that are complete, newest first.
    """
    found = best(valid)
    data = {
        "schema": SCHEMA,
        "newest": checkpoint_name(valid[0].key) if valid else None,
        "best": checkpoint_name(found.key) if found else None,
        "checkpoints": [
            {
                "name": checkpoint_name(entry.key),
                "step": entry.key.step,
                "attempt": entry.key.attempt,
                "bytes": entry.bytes,
                "top1": entry.top1,
            }
            for entry in valid
        ],
    }
    # Nothing depends on it, so neither does a save.
    with suppress(OSError):
        files.remove(folder / _SCRATCH)
        files.write(folder / _SCRATCH, [json.dumps(data, indent=1).encode() + b"\n"])
        files.rename(folder / _SCRATCH, folder / INDEX)
