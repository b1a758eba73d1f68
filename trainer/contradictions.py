"""Problems between the fields of a training configuration that are each fine on their own."""

import re
from typing import TYPE_CHECKING

from common import fields

if TYPE_CHECKING:
    from trainer.config import TrainConfig

_SPAN = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def contradictions(config: "TrainConfig") -> list[str]:
    """Everything that contradicts something else, with the options to change."""
    found = _bad_texts(config)
    data, optimizer = config.data, config.optimizer
    if data.source == "tfrecords" and data.dir is None:
        found.append("--data.dir: name the folder with the shards and their manifest.json")
    if data.source == "synthetic" and data.dir is not None:
        found.append("--data.dir: synthetic data is read from no folder; leave it out")
    if data.source == "synthetic" and data.cache_dir is not None:
        found.append("--data.cache-dir: synthetic data has no shards to keep; leave it out")
    if data.source == "digits" and data.flip:
        found.append("--data.flip: a mirrored digit is another sign; say False")
    if data.augment == "shift" and data.shift_pixels >= config.model.image_size:
        found.append(f"--data.shift-pixels: {data.shift_pixels} moves the whole image out of view")
    if config.batch_size % optimizer.accumulation:
        found.append(
            f"--batch-size: {config.batch_size} does not divide into"
            f" --optimizer.accumulation {optimizer.accumulation} micro-batches"
        )
    if config.exchange.compression == "fp16" and config.compute.precision == "float32":
        found.append("--exchange.compression: fp16 needs --compute.precision mixed_float16")
    if optimizer.warmup_epochs >= config.epochs:
        found.append(
            f"--optimizer.warmup-epochs: {optimizer.warmup_epochs:g} leaves nothing of"
            f" --epochs {config.epochs}"
        )
    if list(optimizer.decay_epochs) != sorted(set(optimizer.decay_epochs)):
        found.append(f"--optimizer.decay-epochs: {optimizer.decay_epochs} must rise")
    return found


def _bad_texts(config: "TrainConfig") -> list[str]:
    found = []
    if config.name is not None and (not _NAME.fullmatch(config.name) or config.name == "latest"):
        found.append(
            f"--name: {config.name!r} must be letters, digits, '.', '_' and '-' (at most 100, the"
            " first a letter or digit), and not 'latest'"
        )
    span = config.profile_steps
    if span is not None and (not _SPAN.fullmatch(span) or not _rises(config.profile_span)):
        found.append(
            f"--profile-steps: {span!r} must be A:B with 1 <= A < B, such as 10:15; the first step"
            " is compilation"
        )
    for leaf in fields.leaves(type(config)):
        value = fields.get(config, leaf.key)
        if value == "None":
            found.append(f"{leaf.flag}: a text 'None' would be read as no text")
        elif (
            leaf.key.endswith("dir") and value is not None and (not value or value.startswith("-"))
        ):
            found.append(f"{leaf.flag}: {value!r} is not a folder's name")
    return found


def _rises(span: tuple[int, int] | None) -> bool:
    return span is not None and 1 <= span[0] < span[1]
