"""Targets of a detection: a fixed number of boxes for each image, moved like its pixels.

A target is float32 [1 + boxes, 7]. Row 0 has width and height of the image in pixels, for the sizes
of the metric; each other row has left, top, right and bottom as fractions of the input, the class,
the kind (`OBJECT`, `IGNORED`, or 0 for no box), and the area in pixels.
"""

from typing import Final

import tensorflow as tf

from trainer.data import images
from trainer.data.formats.record_format import StoredTarget, Values
from trainer.data.source import Source
from trainer.extras.detection.boxes import FIELDS, stored_boxes_fault
from trainer.extras.detection.leaf import BOXES, DetectionOptions

OBJECT, IGNORED = 1.0, 2.0
"""Kinds of boxes: objects, and regions in which predictions count neither as right nor as wrong."""
COLUMNS: Final = len(FIELDS)
LEAST_VISIBLE: Final = 0.25
"""Part of a box that a crop must keep for it to stay an object. Of a smaller part, the class can
hardly be told, so the region is ignored."""

_STORED: Final = StoredTarget(BOXES, "string", "")


class Boxes:
    """Targets are boxes; see above."""

    def parse(self, values: Values, source: Source) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.parse`: images, encoded, and boxes as they are stored."""
        return source.format.parse(values, _STORED)

    def training(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.training`; boxes are cropped and move like the image."""
        view = images.training_view(encoded, source, position)
        choose = images.training_window(source, position)
        size = images.size_of(images.as_used(encoded, source), source.split.encodings)
        window = tf.cast(choose(size), tf.float32) / tf.tile(tf.cast(size, tf.float32), [2])
        target = cut(self._decoded(stored, source), window)
        for motion in view.motions:
            target = _with_corners(target, moved_corners(target[1:, :4], motion))
        return view.image, target

    def evaluation(
        self, encoded: tf.Tensor, stored: tf.Tensor, source: Source
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `TargetDecoder.evaluation`; of the whole image, whose sides become equal."""
        used = images.as_used(encoded, source)
        image = images.window_image(used, source.image_size, images.whole, source.split.encodings)
        return image, self._decoded(stored, source)

    def blank(self, source: Source) -> tf.Tensor:
        """See `TargetDecoder.blank`."""
        return tf.zeros([1 + _most(source), COLUMNS])

    def random(
        self, numbers: tf.random.Generator, batch_size: int, image_size: int, classes: int
    ) -> tf.Tensor:
        """See `TargetDecoder.random`; ten objects an image."""
        shape = [batch_size, 10, 2]
        corner, side = numbers.uniform(shape, 0.0, 0.5), numbers.uniform(shape, 0.1, 0.5)
        label = tf.floor(numbers.uniform([*shape[:2], 1], 0.0, float(classes)))
        kind = tf.fill([*shape[:2], 1], OBJECT)
        area = tf.reduce_prod(side, -1, keepdims=True) * float(image_size**2)
        header = tf.pad(tf.fill([batch_size, 1, 2], float(image_size)), [[0, 0], [0, 0], [0, 5]])
        return tf.concat([header, tf.concat([corner, corner + side, label, kind, area], 2)], 1)

    def fault(self, values: Values, source: Source) -> str | None:
        """See `TargetDecoder.fault`."""
        encoded, stored = self.parse(values, source)
        data = stored.numpy()
        if not data:
            return f"has no boxes ({BOXES}); prepare the data with `prepare detection`"
        size = images.size_of(images.as_used(encoded, source), source.split.encodings)
        height, width = (int(side) for side in size)
        fault = stored_boxes_fault(data, width, height, source.classes)
        count = (len(data) // 4 - 2) // COLUMNS
        if not fault and count > _most(source):
            fault = f"has {count} boxes; allow them with --detection.boxes {count}"
        if not fault:
            self.evaluation(encoded, stored, source)
        return fault

    def _decoded(self, stored: tf.Tensor, source: Source) -> tf.Tensor:
        """Decode the boxes of a record to a target of the whole image."""
        values, most = tf.io.decode_raw(stored, tf.float32), _most(source)
        known = images.require(
            tf.size(values) >= 2, ["a record has no boxes; prepare it for detection"]
        )
        with tf.control_dependencies([known]):
            boxes = tf.reshape(values[2:], [-1, COLUMNS])
        count = tf.shape(boxes)[0]
        checks = [
            images.require(count <= most, ["more boxes than --detection.boxes", count]),
            images.require(
                tf.reduce_all((boxes[:, 4] >= 0) & (boxes[:, 4] < source.classes)),
                ["a box with a class that the data set does not have"],
            ),
        ]
        with tf.control_dependencies(checks):
            kind = tf.where(boxes[:, 5] > 0, IGNORED, OBJECT)
        rows = tf.concat([boxes[:, :5], kind[:, None], boxes[:, 6:]], 1)
        header = tf.pad(values[None, :2], [[0, 0], [0, COLUMNS - 2]])
        padded = tf.pad(tf.concat([header, rows], 0), [[0, most - count], [0, 0]])
        return tf.ensure_shape(padded, [1 + most, COLUMNS])


def cut(target: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    """Return the target of a part of an image.

    Boxes are cut at the edges of the part. Those of which less than `LEAST_VISIBLE` is in it become
    ignored regions, and those of which nothing is in it none.

    Args:
        target: Target of the whole image.
        window: Top, left, height and width of the part, as fractions of the image, float32 [4].
    """
    corner, side = tf.tile(window[1::-1], [2]), tf.tile(window[:1:-1], [2])
    return _with_corners(target, (target[1:, :4] - corner) / side)


def moved_corners(corners: tf.Tensor, motion: tf.Tensor) -> tf.Tensor:
    """Return the smallest upright boxes around boxes whose pixels moved.

    Args:
        corners: Left, top, right and bottom in parts of the side, float32 [n, 4].
        motion: See `trainer.data.augmentations.view.View.motions`.
    """
    left, top, right, bottom = tf.unstack(corners - 0.5, axis=1)
    x = tf.stack([left, right, left, right], 1)
    y = tf.stack([top, top, bottom, bottom], 1)
    forward = tf.linalg.inv(motion)
    x, y = (forward[row, 0] * x + forward[row, 1] * y + forward[row, 2] + 0.5 for row in range(2))
    ends = [reduce(places, 1) for reduce in (tf.reduce_min, tf.reduce_max) for places in (x, y)]
    return tf.stack(ends, 1)


def _with_corners(target: tf.Tensor, moved: tf.Tensor) -> tf.Tensor:
    """Return a target whose boxes have moved, as `cut` does."""
    header, rows = target[:1], target[1:]
    inside = tf.clip_by_value(moved, 0.0, 1.0)
    visible = _area(inside) / tf.maximum(_area(moved), 1e-12)
    kind = rows[:, 5]
    kind = tf.where((kind == OBJECT) & (visible < LEAST_VISIBLE), IGNORED, kind)
    visible_ = (visible > 0) & (kind > 0)
    rows = tf.concat([inside, rows[:, 4:5], kind[:, None], rows[:, 6:]], 1)
    return tf.concat([header, tf.where(visible_[:, None], rows, 0.0)], 0)


def _area(corners: tf.Tensor) -> tf.Tensor:
    return tf.reduce_prod(corners[:, 2:] - corners[:, :2], 1)


def _most(source: Source) -> int:
    return source.options.of(DetectionOptions).boxes if source.options else DetectionOptions().boxes
