"""Mixtures of two training images, on the device.

Each image of a micro-batch is mixed with the one after it, and the last with the first. The loss of
a mixture is that of both targets, weighted by their shares: for the cross-entropy that is the loss
of the mixed target. So targets keep their types, and the loss of every task with one target per
image can be mixed.
"""

import tensorflow as tf

from trainer.tasks.task import Task


def partners(values: tf.Tensor) -> tf.Tensor:
    """Return, for each image of a micro-batch, what belongs to the one that it is mixed with."""
    return tf.roll(values, -1, 0)


def mixed_images(
    image: tf.Tensor, weight: tf.Tensor, patch: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mix the images of a micro-batch.

    Args:
        image: float32 [b, size, size, channels].
        weight: float32 [b]; no image is mixed with one of weight 0, which has no target.
        patch: float32 [b, 5], see `trainer.data.augmentations.table.Patch`.

    Returns:
        The images, and the share of the other image in each, float32 [b].
    """
    size = image.shape[1]
    top, left, bottom, right, opacity = tf.unstack(patch, 5, 1)
    opacity = tf.where(partners(weight) > 0, opacity, 0.0)
    place = tf.range(size, dtype=tf.float32)
    rows, columns = (
        tf.cast((place >= begin[:, None]) & (place < end[:, None]), tf.float32)
        for begin, end in ((top, bottom), (left, right))
    )
    other = (opacity[:, None] * rows)[:, :, None, None] * columns[:, None, :, None]
    share = opacity * (bottom - top) * (right - left) / float(size**2)
    return image * (1.0 - other) + partners(image) * other, share


def mixed_losses(
    task: Task, logits: tf.Tensor, target: tf.Tensor, smoothing: float, share: tf.Tensor | None
) -> tuple[tf.Tensor, ...]:
    """Return what `Task.training` does, of mixtures.

    Args:
        task: A task with one target per image.
        logits: Output of the network for the mixtures.
        target: Targets of the images before they were mixed.
        smoothing: See `Task.training`.
        share: Share of the other image in each, float32 [b]; None if no images were mixed.
    """
    if share is None:
        return task.training(logits, target, smoothing)
    # In one call, because ranks may exchange tensors in it.
    both = task.training(
        tf.concat([logits, logits], 0), tf.concat([target, partners(target)], 0), smoothing
    )
    halves = (tf.split(values, 2) for values in both)
    return tuple(own * (1.0 - share) + other * share for own, other in halves)
