"""Draw the images of a data set of two classes, into a folder for each."""

import sys
from pathlib import Path

from PIL import Image

COLOURS = {"reds": (200, 30, 30), "blues": (30, 30, 200)}
EACH = 12

if __name__ == "__main__":
    for name, (red, green, blue) in COLOURS.items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True)
        for number in range(EACH):
            Image.new("RGB", (32, 32), (red, green + 5 * number, blue)).save(
                folder / f"{number}.png"
            )
