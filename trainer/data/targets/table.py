"""All target decoders by the kind of target."""

from collections.abc import Mapping
from typing import Final

from trainer.data.source import TargetKind
from trainer.data.targets.labels import Labels
from trainer.data.targets.masks import Masks
from trainer.data.targets.target_decoder import TargetDecoder

TARGETS: Final[Mapping[TargetKind, TargetDecoder]] = {"label": Labels(), "mask": Masks()}
