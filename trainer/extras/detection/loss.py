"""Targets of the locations, and the losses of FCOS (Tian et al. 2019). All lengths are fractions of
the input.

The loss of an image is divided by its own number of positive locations, as that of RetinaNet is
(Lin et al. 2017, Focal Loss, 4.1: "the total focal loss of an image ... normalized by the number of
anchors assigned to a ground-truth box"). So it depends on no other image, and sums of images are
the same however they are divided over ranks and micro-batches. FCOS's own code divides by the
positive locations of all GPUs.
"""

from typing import Final, NamedTuple

import tensorflow as tf

from trainer.extras.detection.leaf import EXTRA
from trainer.extras.detection.targets import IGNORED, OBJECT

ALPHA: Final = 0.25
GAMMA: Final = 2.0
RADIUS: Final = 1.5
"""Strides around the middle of a box within which locations are positive (center sampling, in the
later version of the paper)."""
REACH: Final = (4.0, 8.0)
"""Largest distance to a side of the box, in strides, from which a level is used, and up to which:
64 to 128 pixels at the stride 16. The finest level has no lower bound, the coarsest no upper
one."""


class Outputs(NamedTuple):
    """The outputs of the network for each location, float32 [b, l, ...]."""

    classes: tf.Tensor
    """Logits of the classes, [b, l, classes]."""
    center: tf.Tensor
    """Logit of the centerness, [b, l]."""
    boxes: tf.Tensor
    """Left, top, right and bottom, [b, l, 4]."""
    place: tf.Tensor
    """x and y of the location, [b, l, 2]."""
    stride: tf.Tensor
    """Distance between locations, [b, l]."""


class Assigned(NamedTuple):
    """The targets of the locations."""

    positive: tf.Tensor
    """1 for a location that has a box, else 0; float32 [b, l]."""
    counted: tf.Tensor
    """0 for a location whose class does not count, because it lies in an ignored region."""
    label: tf.Tensor
    """Class of its box, int32 [b, l]."""
    boxes: tf.Tensor
    """Its box, [b, l, 4]."""
    center: tf.Tensor
    """Its centerness, [b, l]."""


def split_outputs(logits: tf.Tensor) -> Outputs:
    """Divide the outputs of the network, float32 [b, l, classes + 8]."""
    count = logits.shape[-1] - EXTRA
    classes, center, distances, place, stride = tf.split(logits, [count, 1, 4, 2, 1], -1)
    # Parts of the network, but nothing to learn: no gradient is computed for them.
    place, stride = tf.stop_gradient(place), tf.stop_gradient(stride)
    # e^10 strides are more than any image has; without a bound, float32 would overflow.
    reach = tf.exp(tf.minimum(distances, 10.0)) * stride
    corners = tf.concat([place - reach[..., :2], place + reach[..., 2:]], -1)
    return Outputs(classes, center[..., 0], corners, place, stride[..., 0])


def assign(place: tf.Tensor, stride: tf.Tensor, target: tf.Tensor) -> Assigned:
    """Choose the box of each location: the smallest one that it lies in, near its middle, and whose
    sides are as far away as the location's level is for.

    Args:
        place: x and y of the locations, [b, l, 2].
        stride: Strides, [b, l].
        target: Targets; see `trainer.extras.detection.targets`.
    """
    boxes, label, kind = target[:, 1:, :4], target[:, 1:, 4], target[:, 1:, 5]
    x, y = place[..., :1], place[..., 1:]
    left, top, right, bottom = (side[:, None] for side in tf.unstack(boxes, axis=-1))
    # Each [b, l, boxes].
    sides = (x - left, y - top, right - x, bottom - y)
    inside = tf.minimum(tf.minimum(sides[0], sides[1]), tf.minimum(sides[2], sides[3])) > 0
    farthest = tf.maximum(tf.maximum(sides[0], sides[1]), tf.maximum(sides[2], sides[3]))
    strides = stride[..., None]
    finest = strides <= tf.reduce_min(stride, 1)[:, None, None] * 1.001
    coarsest = strides >= tf.reduce_max(stride, 1)[:, None, None] * 0.999
    low, high = (bound * strides for bound in REACH)
    fits = (finest | (farthest > low)) & (coarsest | (farthest <= high))
    reach = RADIUS * strides
    near = (tf.abs(x - (left + right) / 2) < reach) & (tf.abs(y - (top + bottom) / 2) < reach)
    chosen = inside & near & fits & (kind == OBJECT)[:, None]
    area = tf.where(chosen, (right - left) * (bottom - top), float("inf"))
    best = tf.argmin(area, -1, tf.int32)
    positive = tf.reduce_any(chosen, -1)
    ignored = tf.reduce_any(inside & (kind == IGNORED)[:, None], -1)
    matched = tf.gather(boxes, best, batch_dims=1)
    near_sides = tf.concat([place - matched[..., :2], matched[..., 2:] - place], -1)
    near_sides = tf.where(positive[..., None], near_sides, 1.0)
    across, down = near_sides[..., 0::2], near_sides[..., 1::2]
    center = tf.sqrt(
        tf.reduce_min(across, -1) / tf.reduce_max(across, -1)
        * tf.reduce_min(down, -1) / tf.reduce_max(down, -1)
    )  # fmt: skip
    return Assigned(
        tf.cast(positive, tf.float32),
        tf.cast(positive | ~ignored, tf.float32),
        tf.cast(tf.gather(label, best, batch_dims=1), tf.int32),
        matched,
        center,
    )


def losses(logits: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the loss of each image, float32 [b], and the mean IoU of its positive locations, [b].

    The loss is the sum of focal loss, GIoU loss (Rezatofighi et al. 2019, in place of the IoU loss)
    and cross-entropy of the centerness, divided by the positive locations, at least 1.
    """
    outputs = split_outputs(logits)
    aim = assign(outputs.place, outputs.stride, target)
    true = tf.one_hot(aim.label, outputs.classes.shape[-1]) * aim.positive[..., None]
    focal = tf.reduce_sum(focal_loss(outputs.classes, true), -1) * aim.counted
    iou, giou = overlaps(outputs.boxes, aim.boxes)
    center = tf.nn.sigmoid_cross_entropy_with_logits(aim.center, outputs.center)
    count = tf.maximum(tf.reduce_sum(aim.positive, 1), 1.0)
    total = focal + tf.where(aim.positive > 0, 1.0 - giou + center, 0.0)
    return (
        tf.reduce_sum(total, 1) / count,
        tf.reduce_sum(tf.where(aim.positive > 0, iou, 0.0), 1) / count,
    )


def focal_loss(logits: tf.Tensor, true: tf.Tensor) -> tf.Tensor:
    """Return the focal loss of independent classes (Lin et al. 2017); `true` is 0 or 1."""
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(true, logits)
    probability = tf.sigmoid(logits)
    wrong = true * (1.0 - probability) + (1.0 - true) * probability
    return (true * ALPHA + (1.0 - true) * (1.0 - ALPHA)) * wrong**GAMMA * entropy


def overlaps(boxes: tf.Tensor, other: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return intersection over union, and its generalisation, of boxes [..., 4]."""
    low, high = (
        tf.maximum(boxes[..., :2], other[..., :2]),
        tf.minimum(boxes[..., 2:], other[..., 2:]),
    )
    outer = tf.maximum(boxes[..., 2:], other[..., 2:]) - tf.minimum(boxes[..., :2], other[..., :2])
    shared = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
    areas = [tf.reduce_prod(box[..., 2:] - box[..., :2], -1) for box in (boxes, other)]
    union = tf.maximum(areas[0] + areas[1] - shared, 1e-9)
    hull = tf.maximum(tf.reduce_prod(outer, -1), 1e-9)
    return shared / union, shared / union - (hull - union) / hull
