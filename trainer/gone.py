"""Commands and options that earlier versions had, each with what to use. Standard library only."""

from collections.abc import Mapping
from typing import Final

LAST: Final = "version 0.1.0 was the last with it"

OPTIONS: Final[Mapping[str, str]] = {
    "data.cache_dir": f"{LAST}; a mount can cache files that it reads on the node's disk, as"
    " `--data.cache` of jobs says",
    "mlperf": f"{LAST}; metrics.jsonl has the losses, metrics and times of every attempt",
}
"""By key of an option, or of a whole group, of `TrainConfig`; files of runs may still have it."""
