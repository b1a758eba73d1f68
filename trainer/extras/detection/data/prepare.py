"""`ml-trainer prepare detection`: images and their boxes, as COCO or YOLO describes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from common.errors import ConfigError
from common.image_files import SUFFIXES
from common.text import plural
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import Encoded, RejectedError
from trainer.data.prepare.input_files import ImageFile, Inputs, folder_problems
from trainer.data.prepare.job import prepare
from trainer.data.prepare.options import TURNED
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.errors import DataError
from trainer.extras.detection.boxes import (
    UnfitBoxError,
    fitted,
    main_class,
    pack,
    turned,
    with_advice,
)
from trainer.extras.detection.data import coco, yolo
from trainer.extras.detection.data.annotations import Annotations, Sized
from trainer.extras.detection.data.folder import Folder
from trainer.extras.detection.data.options import PrepareDetectionOptions
from trainer.extras.detection.leaf import BOXES

_SIDEWAYS = 5
"""First EXIF orientation that exchanges width and height."""
_TURNED_MARK = 1_000_003
"""Added to the time of change for each other `--turned-images`."""


@dataclass(frozen=True)
class BoxFiles:
    """The boxes of a data set, checked; see `TargetFiles`."""

    boxes: Callable[[ImageFile, int, int], Sized]
    """See `Annotations.boxes`."""
    classes: int
    """Number of classes."""
    unfit: str
    """What becomes of a box that does not fit: reject or drop."""
    most: int
    """Most boxes of an image."""
    relative: bool = False
    """See `Annotations.relative`."""
    turned: str = "reject"
    """Which way up the boxes of an image are that its EXIF turns: upright, stored, or reject if it
    is not clear."""

    def read(
        self, file: ImageFile, image: Encoded, *, resize: bool
    ) -> tuple[dict[str, bytes], int]:
        """See `TargetFiles.read`: the boxes, and the class of the largest object."""
        boxes, width, height = self._upright(file, image, resize=resize)
        fitting = []
        for box in boxes:
            try:
                fitting.append(fitted(box, width, height, self.classes))
            except UnfitBoxError as error:
                if self.unfit == "reject":
                    raise with_advice(error, "(--unfit-boxes drop leaves it out)") from error
        if len(fitting) > self.most:
            raise RejectedError(f"has {len(fitting)} boxes, more than --most-boxes {self.most}")
        return {BOXES: pack(fitting, width, height)}, main_class(fitting)

    def _upright(self, file: ImageFile, image: Encoded, *, resize: bool) -> Sized:
        """Return boxes as they are in the image that is turned upright, and the width and height
        for which they were made.

        Raises:
            RejectedError: They are for an image of another size, or it is not clear for which.
        """
        sideways, size = image.orientation >= _SIDEWAYS, (image.width, image.height)
        as_stored = image.orientation != 1 and self.turned == "stored"
        wanted = size[::-1] if as_stored and sideways else size
        boxes, width, height = self.boxes(file, *wanted)
        if boxes and resize and not (width and height):
            raise RejectedError(
                "has boxes without the width and height of their image, so they cannot be shrunk"
                " with it (--reencode); add both to its annotations"
            )
        known = sideways and not self.relative and width != height
        if boxes and image.orientation != 1 and self.turned == "reject" and not known:
            raise RejectedError(
                "is turned by its EXIF, so it is not clear which way up its boxes are; say it"
                " with --turned-images upright or stored"
            )
        width, height = width or wanted[0], height or wanted[1]
        same_shape = abs(width * wanted[1] - height * wanted[0]) <= max(width, height, *size)
        if (width, height) != wanted and not (resize and same_shape):
            is_turned = (width, height) == wanted[::-1]
            why = ", as if it were not turned upright as its EXIF says" if is_turned else ""
            raise RejectedError(
                f"has {wanted[0]} x {wanted[1]} pixels, but its boxes are for {width} x"
                f" {height}{why}"
            )
        if as_stored:
            boxes = [turned(box, image.orientation, width, height) for box in boxes]
        return boxes, *((height, width) if as_stored and sideways else (width, height))


def prepare_detection(
    options: PrepareDetectionOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write images and their boxes as a data set.

    Raises:
        ConfigError: A folder or file is not given or does not exist, or classes are missing.
        DataError: The annotations cannot be read or contradict each other; or see `job.prepare`.
    """
    folder, output = Path(options.input), Path(options.output)
    problems = [
        f"--annotations: no file {file}" for file in options.annotations if not Path(file).is_file()
    ]
    problems += folder_problems(options.output, input=options.input)
    if options.pages != "first":
        problems.append("--pages: boxes are of the first image of a file; set it to first")
    if problems:
        raise ConfigError(problems)
    files = Folder(folder)
    if not files.images_count:
        raise DataError.of("", f"{folder}", f": has no images ({', '.join(SUFFIXES)})")
    jsons = [Path(file) for file in options.annotations] or coco.annotation_files(files)
    if jsons:
        annotations = coco.read(jsons, files, options.classes)
    else:
        annotations = yolo.read(files, options.classes)
    inputs = listed(annotations, options, files.images_count)
    return prepare(inputs, output, options, command, options.held_out, work_through)


def listed(annotations: Annotations, options: PrepareDetectionOptions, images: int) -> Inputs:
    """Return the images of which annotations tell, of those found. If only some of them have a
    split, the others are for training.

    Raises:
        DataError: There are none, or there are held-out images but none for training.
    """
    splits, count, first = set[str](), 0, ""
    for file in annotations.images():
        if isinstance(file, ImageFile):
            splits.add(file.split)
            count += 1
        elif not first:
            first = f": {file.name} {file.reason}"
    if not splits:
        raise DataError.of("no image has annotations", first)
    if "train" not in splits and "" not in splits:
        raise DataError.of(
            f"all {plural(count, 'image')} are held out, by the word in the name of their folder or"
            " file; training images are in a folder or file called train"
        )
    # As in COCO files called instances.json and instances_val.json.
    rest = "train" if "validation" in splits else ""
    # Whatever changes a record must change the hash of the listing as well.
    marks = 2 * options.most_boxes + (options.unfit_boxes == "drop")
    marks += _TURNED_MARK * TURNED.index(options.turned_images)

    def files() -> Iterator[ImageFile | RejectedFile]:
        for file in annotations.images():
            split = file.split if splits != {"train"} and file.split else rest
            if isinstance(file, ImageFile):
                yield replace(file, split=split, changed=file.changed + marks)
            else:
                yield replace(file, split=split)

    notes = annotations.notes
    if images > count:
        left = plural(images - count, "image")
        notes = (*notes, f"left out, because no annotations name them: {left}")
    targets = BoxFiles(
        annotations.boxes,
        len(annotations.classes),
        options.unfit_boxes,
        options.most_boxes,
        annotations.relative,
        options.turned_images,
    )
    return Inputs(annotations.classes, files, notes=notes, targets=targets, above=0)
