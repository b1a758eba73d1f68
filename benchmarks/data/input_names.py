"""Names of the contenders of `input`, apart from the module that makes their data: a process that
measures must not import pyarrow before it has chosen how Arrow keeps memory.
"""

from typing import Final

PIPELINE: Final = "our pipeline"
FLOOR: Final = "decode and resize alone"
PARQUET: Final = "ours, Parquet"
TEXTBOOK: Final = "textbook pipeline"
REENCODED: Final = "ours, re-encoded"
