"""Memory of Spark's driver while `trainer prepare imagenet --with spark` writes many small images
from tar archives, with one executor and with several.

The executors are JVMs of this machine, each with one core (local-cluster). The driver is a Python
process and its JVM, in which Spark also runs its master and its workers here, so the figure is an
upper bound: the peak of the sum of their resident memory, sampled every 200 ms. Needs Java, and
pyspark on the path: PYTHONPATH=.tools/spark-4:. python -m benchmarks spark-prepare
"""

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import psutil
from PIL import Image

from benchmarks.data.prepare import resident
from benchmarks.measure import BenchmarkOptions, columns
from common.errors import UserError
from common.text import duration, plural, size
from trainer.config import Positive

GOAL: Final = 1e9
"""Goal: most memory of the driver, in bytes."""
_CLASSES: Final = 100
_DISTINCT: Final = 500
_SAMPLE_SECONDS: Final = 0.2

_PREPARE: Final = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from trainer.data.prepare.imagenet import prepare_imagenet
from trainer.data.prepare.options import PrepareImagenetOptions
from trainer.spark.preparation import on_spark

executors, folder, output, shard_mb, path = sys.argv[1:]
spark = (SparkSession.builder.master(f"local-cluster[{executors},1,1024]")
         .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
         .config("spark.driver.memory", "512m").config("spark.ui.showConsoleProgress", "false")
         .config("spark.executorEnv.PYTHONPATH", path).getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
options = PrepareImagenetOptions(train=f"{folder}/train", validation=f"{folder}/validation",
                                 output=output, shard_mb=int(shard_mb), processes=1)
prepare_imagenet(options, "benchmark", on_spark(spark))
spark.stop()
"""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Memory of the driver while Spark prepares many small images."""

    images: Annotated[int, Positive] = 100_000
    """Training images; ImageNet has 1,281,167."""

    executors: tuple[int, ...] = (1, 2)
    """Numbers of executors, one after the other."""

    shard_mb: Annotated[int, Positive] = 8
    """Size of a shard, in MB; small, so that there are as many shards as of large images."""

    scratch: str | None = None
    """Folder for archives and data sets, about 6 kB per image; by default that for temporary
    files."""


def measure(options: Options) -> dict[str, Any]:
    """Prepare the same images with each number of executors.

    Raises:
        UserError: A preparation failed, or the data sets differ.
    """
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        write_archives(scratch, options.images)
        runs, contents = [], set()
        for executors in options.executors:
            output = scratch / f"by-{executors}"
            figures = _prepare(scratch, output, executors, options.shard_mb)
            shards = len(list(output.glob("*-of-*")))
            runs.append(
                {"executors": executors, "images": options.images, "shards": shards, **figures}
            )
            contents.add(_hash(output))
            print(
                f"{plural(executors, 'executor')}: {plural(options.images, 'image')} in"
                f" {duration(figures['seconds'])}, the driver's peak is {size(figures['peak'])}",
                flush=True,
            )
            shutil.rmtree(output)
    if len(contents) > 1:
        raise UserError("the data sets of different numbers of executors differ; this is a bug")
    return {"runs": runs}


def show(data: Mapping[str, Any]) -> str:
    """Format a table of the runs."""
    head = ["executors", "images", "shards", "time", "images/s"]
    rows = [
        [
            *(f"{run[name]:,}" for name in ("executors", "images", "shards")),
            duration(run["seconds"]),
            f"{run['images'] / run['seconds']:,.0f}",
            *(size(run[name]) for name in ("peak", "python_peak", "jvm_peak")),
        ]
        for run in data["runs"]
    ]
    rows.insert(0, [*head, "driver, at the highest", "its Python", "its JVM"])
    return f"{columns(rows)}\n\nThe goal is at most {size(GOAL)}."


def write_archives(folder: Path, images: int) -> None:
    """Write ImageNet's layout: an archive for each class, and a folder of validation images."""
    pixels = np.random.default_rng(0).integers(0, 256, (_DISTINCT, 24, 24, 3), np.uint8)
    jpegs = []
    for image in pixels:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=80)
        jpegs.append(buffer.getvalue())
    (folder / "train").mkdir()
    for label in range(_CLASSES):
        synset = f"n{label + 1:08d}"
        with tarfile.open(
            folder / "train" / f"{synset}.tar", "w", format=tarfile.GNU_FORMAT
        ) as tar:
            for number in range(label, images, _CLASSES):
                member = tarfile.TarInfo(f"{synset}_{number}.JPEG")
                data = jpegs[number % _DISTINCT]
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        held_out = folder / "validation" / synset
        held_out.mkdir(parents=True)
        (held_out / f"{label}.JPEG").write_bytes(jpegs[label])


def _prepare(folder: Path, output: Path, executors: int, shard_mb: int) -> dict[str, float]:
    """Return the seconds of one preparation, and the driver's peaks in bytes."""
    # Executors have folders of their own, where relative paths lead nowhere.
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(str(Path(part).absolute()) for part in parts)
    words = [str(executors), str(folder), str(output), str(shard_mb), path]
    begin, peaks = time.monotonic(), {"peak": 0, "python_peak": 0, "jvm_peak": 0}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", _PREPARE, *words]
    with psutil.Popen(command, env=environment) as process:
        while process.poll() is None:
            # Executors are not counted: they are the JVM's children.
            with suppress(psutil.NoSuchProcess):
                held = resident(process)
                jvm = sum(resident(child) for child in process.children() if "java" in child.name())
                for name, value in zip(peaks, (held + jvm, held, jvm), strict=True):
                    peaks[name] = max(peaks[name], value)
            time.sleep(_SAMPLE_SECONDS)
    if process.returncode:
        raise UserError(f"the preparation with {executors} executors failed, see above")
    return {"seconds": time.monotonic() - begin, **peaks}


def _hash(folder: Path) -> str:
    """Return a hash of all files of a data set; of the manifest, of what it says of them."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        if path.suffix == ".json":
            data = json.dumps(json.loads(data)["splits"]).encode()
        total.update(path.name.encode() + hashlib.sha256(data).digest())
    return total.hexdigest()
