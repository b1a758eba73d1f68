"""Images of patients as a hospital has them: with a table, texts, damage, and two depths."""

from pathlib import Path

import numpy as np
from PIL import Image

from tests.trainer.support.data_sets.image_files import saved

CLASSES = ("Normal", "Pneumonie", "Tumor")
SHARES = (0.71, 0.22, 0.07)
SITES = ("Köln", "Bonn")


def scan(rng: np.random.Generator, patient: int, label: int, side: int, most: int) -> np.ndarray:
    """An image whose texture is its patient's, and a spot of its class."""
    own = np.random.default_rng(patient)
    across, down = np.meshgrid(np.linspace(0, 6, side), np.linspace(0, 6, side))
    waves = sum(np.sin(own.uniform(1, 4) * across + own.uniform(1, 4) * down) for _ in range(3))
    spot = np.zeros((side, side))
    place = rng.integers(side // 4, side // 2, 2)
    spot[place[0] : place[0] + side // 8, place[1] : place[1] + side // 8] = label
    values = waves / 3 + spot + rng.normal(0, 0.1, (side, side))
    return ((values + 2) / 6 * most).clip(0, most)


def write_hospital(
    root: Path, patients: int = 30, images: int = 4, side: int = 32, *, folders: bool = False
) -> Path:
    """Write images, and labels.csv as Excel writes it in Germany.

    Args:
        root: Folder to write.
        patients: Number of patients.
        images: Images of each patient, on average.
        side: Height and width in pixels.
        folders: Whether the images of a class, and in it of a patient, have a folder.

    Returns:
        The table.
    """
    rng, rows = np.random.default_rng(7), ["Dateiname;Diagnose;Patient;Standort;Alter, Jahre"]
    for patient in range(patients):
        label = int(rng.choice(3, p=SHARES)) if patient > 5 else patient % 3
        for number in range(int(rng.integers(1, 2 * images))):
            deep = (patient + number) % 3 == 0
            values = scan(rng, patient, label, side, 4095 if deep else 255)
            name = f"Aufnahme {patient:03d} {number}"
            below = f"{CLASSES[label]}/Pat_{patient:03d}/" if folders else ""
            path = root / f"{below}{name}.{'png' if deep else 'jpg'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if deep:
                Image.fromarray(values.astype(np.uint16)).save(path)
            else:
                Image.fromarray(values.astype(np.uint8)).save(path, quality=90)
            rows.append(
                f"{path.name};{CLASSES[label]};P{patient:04d};{SITES[patient % 2]};{20 + patient}"
            )
    (root / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0")
    (root / "._Aufnahme 001 0.jpg").write_bytes(b"\x00\x05\x16\x07")
    where = next(path for path in root.rglob("*.jpg") if not path.name.startswith("."))
    (where.parent / "Befund.txt").write_text("unauffällig", encoding="utf-8")
    broken = saved(Image.new("L", (side, side)), "PNG")[:40]
    (where.parent / "Aufnahme kaputt.png").write_bytes(broken)
    rows.append("Aufnahme kaputt.png;Normal;P0000;Köln;40")
    table = root / "labels.csv"
    table.write_bytes(("\r\n".join(rows) + "\r\n").encode("cp1252"))
    return table
