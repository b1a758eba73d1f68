"""Options of virtual ranks, and their combinations with others. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Any

from common.annotations import Bounds
from trainer.leaf import Feature, Leaf, StrategyDescription


@dataclass(frozen=True)
class VirtualRankOptions:
    """Ranks that a step is computed for, however many there are."""

    count: Annotated[int, Bounds(at_least=0)] = 0
    """Number of virtual ranks, a power of two: each step is computed as by that many ranks and
    added up in one fixed order, so that every number of ranks that divides it ends with the same
    bits (after the virtual nodes of VirtualFlow, Or et al. 2022). `batch_size` is then that of a
    virtual rank. Choose the most GPUs that the run may have. 0: sums depend on the number of
    ranks."""


def _count(config: Any) -> int:
    return config.of(VirtualRankOptions).count  # type: ignore[no-any-return]


def _problems(config: Any) -> list[str]:
    count, problems = _count(config), []
    if count == 1 or count & (count - 1):
        problems.append(
            f"--virtual-ranks.count: {count} must be 0 or a power of two from 2 on, because virtual"
            " ranks are added up in pairs"
        )
    elif count and config.data.streams % count:
        problems.append(
            f"--data.streams: {config.data.streams} must be a multiple of --virtual-ranks.count"
            f" {count}, so that any number of ranks reads in the same order; use"
            f" {-(-config.data.streams // count) * count}"
        )
    return problems


class VirtualRanksDescription(StrategyDescription):
    """See `StrategyDescription`."""

    code = "trainer.extras.virtual_ranks.strategy:VirtualRanks"

    @property
    def threads(self) -> int:
        """See `StrategyDescription.threads`."""
        return super().threads or 1

    def batches(self, ranks: int) -> int:
        """See `StrategyDescription.batches`."""
        del ranks
        return _count(self.config)

    def misfits(self, ranks: int, classes: int | None) -> list[str]:
        """See `StrategyDescription.misfits`."""
        del classes
        count = _count(self.config)
        if count % ranks == 0:
            return []
        fitting = [str(1 << power) for power in range(count.bit_length())]
        return [
            f"--virtual-ranks.count: {count} virtual ranks cannot be divided evenly over {ranks}"
            f" ranks; use {', '.join(fitting[:-1])} or {fitting[-1]}"
        ]


LEAF = Leaf(
    key="virtual_ranks",
    options=VirtualRankOptions,
    features=(
        Feature(
            "virtual ranks",
            "--virtual-ranks.count above 1",
            lambda config: _count(config) > 0,
            {
                ("float16 exchange",): (
                    "a sum that is sent would be rounded, and one inside a rank would not"
                ),
                ("xla",): "XLA chooses the order of additions itself",
            },
        ),
    ),
    problems=_problems,
    strategy=VirtualRanksDescription,
)
