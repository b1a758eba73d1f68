"""Classification whose last layer is divided by classes over a group of ranks.

The exchanges of the M ranks of a group for b images each, with D features and n = C / M classes per
rank; [M b] stands for the images of the whole group:

    features [b, D], labels [b]                    join      each rank then has them of [M b]
    its logits [M b, n], their largest [M b]       maximum   so that no exponential overflows
    sums of exponentials, logits of labels, ...    sum       3 or 4 numbers for each of [M b]
    loss of its own images [b]
    backward: weights of the losses [b]            join
    gradient of the kernel [D, n], of the bias     none      complete for [M b] already
    gradient of the features [M b, D]              scatter_sum, to each rank those of its own images

All of it is one function with a gradient of its own. The gradients that Horovod defines for its
operations would not do: they treat what every rank computes alike as if each rank had its own.
"""

from collections.abc import Callable

import tensorflow as tf

from trainer.extras.head.last_layer import DividedHead
from trainer.tasks.classification.files import COLUMNS, PROBABILITIES
from trainer.tasks.classification.task import MOST_AREAS, Classification, counted


class DividedClassification(Classification):
    """Classification by a network that ends before its last layer. In place of logits it takes the
    features of a rank's images, float [b, D]. All ranks of a group must call a method together.
    """

    def __init__(self, head: DividedHead) -> None:
        """Args:
        head: This rank's part of the last layer.
        """
        super().__init__(head.classes)
        self._head = head

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `Task.training`."""
        group, features = self._head.group, tf.cast(logits, tf.float32)
        labels = group.join(target, "head_labels")
        row, column, held = self._places(labels)
        places = tf.stack([row, column], 1)

        def loss(
            mine: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
        ) -> tuple[
            tuple[tf.Tensor, tf.Tensor, tf.Tensor],
            Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]],
        ]:
            joined = group.join(mine, "head_features")
            own = tf.matmul(joined, kernel) + bias
            largest = group.maximum(tf.reduce_max(own, 1), "head_largest")
            shifted = own - largest[:, None]
            exponentials = tf.exp(shifted)
            of_label = tf.where(held, tf.gather_nd(shifted, places), 0.0)
            parts = [tf.reduce_sum(exponentials, 1), of_label, self._hit(own, largest, labels)]
            if smoothing:
                parts.append(tf.reduce_sum(shifted, 1))
            (sums,) = group.sum([tf.stack(parts)], "head_sums")
            losses = plain = tf.math.log(sums[0]) - (1.0 - smoothing) * sums[1]
            if smoothing:
                plain = tf.math.log(sums[0]) - sums[1]
                losses -= smoothing / self.classes * sums[3]

            def gradient(
                upstream: tf.Tensor, *_: tf.Tensor
            ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
                factors = group.join(upstream, "head_upstream")
                difference = exponentials * (factors / sums[0])[:, None]
                if smoothing:
                    difference -= (smoothing / self.classes * factors)[:, None]
                of_labels = tf.where(held, (1.0 - smoothing) * factors, 0.0)
                difference = tf.tensor_scatter_nd_sub(difference, places, of_labels)
                of_features = group.scatter_sum(
                    tf.matmul(difference, kernel, transpose_b=True), "head_gradient"
                )
                of_kernel = tf.matmul(joined, difference, transpose_a=True)
                return of_features, of_kernel, tf.reduce_sum(difference, 0)

            per_image = (losses, tf.nn.relu(sums[2]), plain)
            return tuple(self._mine(values, mine) for values in per_image), gradient

        losses, scores, plain = tf.custom_gradient(loss)(
            features, self._head.kernel, self._head.bias
        )
        return losses, scores, plain

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`."""
        group, head, features = self._head.group, self._head, tf.cast(logits, tf.float32)
        labels = group.join(target, "evaluated_labels")
        own = tf.matmul(group.join(features, "evaluated_features"), head.kernel) + head.bias
        most = min(5, self.classes)
        best = tf.math.top_k(own, min(most, own.shape[-1]))
        # In the order of classes, because of equal logits the first counts.
        candidates = tf.transpose(group.join(tf.transpose(best.values), "evaluated_best"))
        numbers = group.join(tf.transpose(best.indices + head.first), "evaluated_classes")
        top = tf.math.top_k(candidates, most)
        classes = tf.gather(tf.transpose(numbers), top.indices, batch_dims=1)
        shifted = own - top.values[:, :1]
        row, column, held = self._places(labels)
        of_label = tf.where(held, tf.gather_nd(shifted, tf.stack([row, column], 1)), 0.0)
        (sums,) = group.sum(
            [tf.stack([tf.reduce_sum(tf.exp(shifted), 1), of_label])], "evaluated_sums"
        )
        counts = counted(tf.math.log(sums[0]) - sums[1], labels, classes)
        values = (labels, classes[:, 0], 1.0 / sums[0], tf.exp(sums[1]) / sums[0])
        columns = dict(zip(COLUMNS, values, strict=True))
        if self.classes <= MOST_AREAS:
            parts = group.join(tf.transpose(tf.exp(shifted)), "evaluated_exponentials")
            columns[PROBABILITIES] = tf.transpose(parts) / sums[0][:, None]
        return self._mine(counts, target), {
            name: self._mine(column, target) for name, column in columns.items()
        }

    def _places(self, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return row and column of each label's logit in this rank's, int32, and whether this rank
        holds it; the column of one that it does not hold is any.
        """
        width = self.classes // self._head.group.size
        column = labels - self._head.first
        held = (column >= 0) & (column < width)
        return tf.range(tf.size(labels)), tf.clip_by_value(column, 0, width - 1), held

    def _hit(self, own: tf.Tensor, largest: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Return numbers whose sum over the group is 1 if the label is the first class with the
        largest logit, and at most 0 otherwise.
        """
        best = self._head.first + tf.argmax(own, 1, tf.int32)
        is_largest = tf.reduce_max(own, 1) == largest
        hit, before = is_largest & (best == labels), is_largest & (best < labels)
        return tf.cast(hit, tf.float32) - tf.cast(before, tf.float32)

    def _mine(self, values: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
        """Return the rows of this rank's images."""
        count = tf.shape(batch)[0]
        return values[self._head.group.index * count :][:count]
