"""What an image costs from shard to batch, on photographs as large as ImageNet's.

    .venv-trainer/bin/python -m benchmarks.input --json benchmarks/results/input.json

Makes 1,000 photographs (benchmarks/photos.py), prepares ten copies of each once as they are and
once with --reencode 292:90, and runs `python -m trainer benchmark input` on both.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.photos import write_photos
from trainer.cli import main

PHOTOS, COPIES = 1000, 10


def measure(args: Sequence[str]) -> int:
    """Prepare both data sets and measure; `args` are those of `benchmark input`."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "photos"
        write_photos(folder, PHOTOS)
        for photo in list(folder.glob("*/*.jpg")):
            for copy in range(1, COPIES):
                os.link(photo, photo.with_stem(f"{photo.stem}-{copy}"))
        sets = {"--data": [], "--reencoded": ["--reencode", "292:90"]}
        for name, options in sets.items():
            output = f"{scratch}/set{name}"
            prepared = ["prepare", "folder", "--input", str(folder), "--output", output, *options]
            status = main(prepared)
            if status:
                return status
            args = [*args, name, output]
        return main(["benchmark", "input", *args])


if __name__ == "__main__":
    sys.exit(measure(sys.argv[1:]))
