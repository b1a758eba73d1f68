"""Commands that earlier versions had, each with what to use. Pure."""

from collections.abc import Mapping
from typing import Final

_LAST: Final = "version 0.1.0 was the last with it"

COMMANDS: Final[Mapping[str, str]] = {
    "commission": f"{_LAST}; run the ten commands of docs/first-day-on-azure.md",
    "replicate": f"{_LAST}; copy the folder with AzCopy, and `upload` it to the other stack"
    " (docs/transfer.md)",
}
