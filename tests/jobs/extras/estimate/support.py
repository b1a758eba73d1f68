"""Estimates of tests, from the shipped measurements and prices of their own."""

from common.prices import NodePrices, Price, PriceSource
from infra.catalog import vm_sizes
from jobs.extras.estimate.command import PlanOptions, workload_of
from jobs.extras.estimate.forecast import Assumptions, Forecaster
from jobs.throughput import Point

SOURCE = PriceSource("a list of the test", "https://example.com", "2026-11-23")
DEDICATED, SPOT = 20.0, 5.0
NDV2, NDA100, ONE_A100, TWO_A100, H100, H200 = (
    vm_sizes.BY_NAME[f"Standard_{name}"]
    for name in (
        *("ND40rs_v2", "ND96asr_v4", "NC24ads_A100_v4", "NC48ads_A100_v4", "ND96isr_H100_v5"),
        "ND96isr_H200_v5",
    )
)


def priced(*kinds, size=NDV2, currency="USD"):
    """Prices of nodes of some priorities; LowPriority is Spot."""
    amounts = {"Dedicated": DEDICATED, "LowPriority": SPOT}
    return NodePrices(
        (
            {
                (size.name.lower(), kind): Price(amounts[kind], currency, "hour", SOURCE)
                for kind in kinds
            },
        ),
        "eastus",
    )


ALL = priced("Dedicated", "LowPriority")


def workload(*program, **options):
    return workload_of(PlanOptions(**options), program)


def forecaster(of=None, *, prices=ALL, points=(), **assumed):
    return Forecaster(of or workload(), prices, Assumptions(**assumed), points)


def point(nodes, *rates, size=NDV2.name, ranks=None, **values):
    """A measured point of the preset imagenet-ndv2."""
    known = {"model": "ResNet-50", "precision": "mixed_float16", "batch_per_rank": 256}
    known |= {"image_size": 224, "rates": rates}
    return Point(size, nodes, ranks or nodes * 8, **{**known, **values})


def choice(size, nodes=1, *program, priority="Dedicated", points=(), prices=ALL, **options):
    """The estimate of a choice of the preset imagenet-ndv2 with options of the trainer."""
    made = forecaster(workload(*program, **options), points=points, prices=prices)
    return made.choice(size, nodes, priority)
