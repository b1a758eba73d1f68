"""What an image costs from shard to batch, on photographs as large as ImageNet's.

    .venv-trainer/bin/python -m benchmarks photographs --json benchmarks/results/input.json

Makes 1,000 photographs (benchmarks/data/photos.py), prepares ten copies of each once as they are
and once with --reencode 292:90, and runs `python -m benchmarks input`, whose options it takes, on
both.
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import command
from benchmarks.data.photos import write_photos
from benchmarks.options import InputBenchmark
from common.arguments import parse
from trainer.cli import main as trainer

PHOTOS, COPIES = 1000, 10


def main() -> int:
    """Prepare both data sets and measure."""
    options = parse(InputBenchmark(), "photographs", sys.argv[1:], package="benchmarks")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "photos"
        write_photos(folder, PHOTOS)
        for photo in list(folder.glob("*/*.jpg")):
            for copy in range(1, COPIES):
                os.link(photo, photo.with_stem(f"{photo.stem}-{copy}"))
        for name, shaping in {"whole": [], "reencoded": ["--reencode", "292:90"]}.items():
            output = f"{scratch}/{name}"
            prepared = ["prepare", "folder", "--input", str(folder), "--output", output, *shaping]
            status = trainer(prepared)
            if status:
                return status
        command.input_(replace(options, data=f"{scratch}/whole", reencoded=f"{scratch}/reencoded"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
