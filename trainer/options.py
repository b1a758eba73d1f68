"""The options of commands of the trainer that jobs run. Standard library only."""

from trainer.data.prepare.options import PrepareFolderOptions, PrepareImagenetOptions
from trainer.scoring.options import ScoreOptions

__all__ = ["PrepareFolderOptions", "PrepareImagenetOptions", "ScoreOptions"]
