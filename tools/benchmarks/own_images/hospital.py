"""A folder like that of a hospital, to try a newcomer's commands on: unequal classes, few patients
with many images each, several formats and depths, damaged files, and files other than images.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from PIL import Image
from rich.progress import track

from common.annotations import Bounds, Positional
from common.errors import UserError
from tools.benchmarks.own_images.sets import chest

Array = np.ndarray[Any, Any]
CLASSES: Final = {"Normal": 0.71, "Pneumonie": 0.22, "Erguss": 0.07}
"""Share of the patients of each class."""
_DRAWN: Final = {"Normal": 0, "Erguss": 1, "Pneumonie": 2}
"""Classes of `tools.benchmarks.own_images.sets.chest`."""
_EACH: Final = 10
"""Images of a patient."""
_DAMAGED: Final = 97
"""Of so many images, one is cut off."""


@dataclass(frozen=True)
class Options:
    """Write FOLDER/CLASS/PATIENT/FILE: 3,000 X-ray-like images of 300 patients, 71 %, 22 % and 7 %,
    as PNGs of 12 bits, TIFFs of 16 bits, JPEGs and BMPs, some of them damaged; with reports as text
    files, and a table of files, classes, patients and sites in Latin-1 with semicolons.
    """

    folder: Annotated[str, Positional("FOLDER")] = ""
    """Folder to write."""

    patients: Annotated[int, Bounds(at_least=30)] = 300
    """Number of patients, each with ten images."""

    seed: int = 0
    """Seed of everything that is drawn."""


def run(options: Options) -> None:
    """Write the folder."""
    if not options.folder:
        raise UserError("name the folder to write, as in: write-hospital data/hospital")
    write(Path(options.folder), options.patients, options.seed)
    print(f"{options.folder}: {options.patients * _EACH:,} images of {options.patients:,} patients")


def write(folder: Path, patients: int, seed: int) -> None:
    """Write the folder; see `Options`."""
    counts = [round(patients * share) for share in CLASSES.values()]
    names = [name for name, count in zip(CLASSES, counts, strict=True) for _ in range(count)]
    rows = ["Datei;Diagnose;Patient;Standort;Gerät"]
    for number, name in enumerate(track(names, f"making {len(names) * _EACH:,} images")):
        into = folder / name / f"Pat_{number:03d}"
        into.mkdir(parents=True)
        for image in range(_EACH):
            random = np.random.default_rng([seed, number, image])
            pixels = chest(random, np.random.default_rng([seed, number]), _DRAWN[name], 160)
            file = _write(into / f"Aufnahme {image:02d}", pixels, random, number * _EACH + image)
            site = ("Köln", "Graz", "Bern")[number % 3]
            rows.append(f"{file.relative_to(folder)};{name};Pat_{number:03d};{site};R{number % 4}")
        if number % 60 == 0:
            (into / "Befund.txt").write_text("unauffällig\n", encoding="latin-1")
    (folder / "labels.csv").write_text("\r\n".join(rows) + "\r\n", encoding="latin-1")


def _write(path: Path, pixels: Array, random: np.random.Generator, number: int) -> Path:
    """Write an image in one of four formats; return the file."""
    kind = random.choice(["png", "tif", "jpg", "bmp"], p=[0.45, 0.25, 0.25, 0.05])
    file = path.with_name(f"{path.name}.{kind}")
    if kind == "png":
        Image.fromarray(pixels.astype(np.uint16) * 16).save(file)
    elif kind == "tif":
        Image.fromarray(pixels.astype(np.uint16) * 257).save(file)
    else:
        Image.fromarray(pixels).save(file)
    if number % _DAMAGED == 5:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
    return file
