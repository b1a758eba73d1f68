"""What a training uses of `trainer.checkpoints`."""

from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.variables import restore, snapshot

__all__ = ["CheckpointFolder", "restore", "snapshot"]
