"""A preloaded library (LD_PRELOAD) under which reads of shards are slow, or fail."""

import subprocess
from pathlib import Path

CODE = Path(__file__).with_name("slow_reads.c")


def compile_library(folder):
    """Compile the library into a folder."""
    library = folder / "slow_reads.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(CODE), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library
