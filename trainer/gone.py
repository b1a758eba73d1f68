"""Commands and options that earlier versions had, each with what to use. Standard library only."""

from collections.abc import Mapping
from typing import Final

_LAST: Final = "version 0.1.0 was the last with it"

OPTIONS: Final[Mapping[str, str]] = {
    "data.cache_dir": f"{_LAST}; a mount can cache what it reads on the node's disk, as"
    " `--data.cache` of jobs says",
    "mlperf": f"{_LAST}; metrics.jsonl has the losses, metrics and times of every attempt",
}
"""By key of an option, or of a whole group, of `TrainConfig`; files of runs may still have it."""

OF_PARQUET: Final[Mapping[str, str]] = dict.fromkeys(
    ("copy", "reencode", "shard_mb", "seed", "max_rejected", "max_pixels", "held_out", "with",
     "metadata", "names", "name_key", "name_table", "group_by", "pages", "test"),
    f"{_LAST}, as files are read where they are; write their images to a folder (docs/data.md),"
    " and use `prepare folder`",
)  # fmt: skip
"""Options that `prepare parquet` had for copies."""
