"""Forecasts of tests, from the shipped measurements and prices of their own."""

from common.prices import NodePrices, Price, PriceSource
from infra.catalog import vm_sizes
from jobs.estimate.command import PlanOptions, workload_of
from jobs.estimate.forecast import Assumptions, Forecaster
from jobs.throughput import Point

SOURCE = PriceSource("a list of the test", "https://example.com", "2026-11-23")
DEDICATED, SPOT = 20.0, 5.0
NDV2, NDA100 = (vm_sizes.BY_NAME[f"Standard_{name}"] for name in ("ND40rs_v2", "ND96asr_v4"))


def priced(*kinds):
    """Prices of NDv2 nodes of some priorities; LowPriority is Spot."""
    amounts = {"Dedicated": DEDICATED, "LowPriority": SPOT}
    return NodePrices(
        (
            {
                (NDV2.name.lower(), kind): Price(amounts[kind], "USD", "hour", SOURCE)
                for kind in kinds
            },
        )
    )


ALL = priced("Dedicated", "LowPriority")


def workload(*program, **options):
    return workload_of(PlanOptions(**options), program)


def forecaster(of=None, *, prices=ALL, points=(), **assumed):
    return Forecaster(of or workload(), prices, Assumptions(**assumed), points)


def point(nodes, *rates, size=NDV2.name, **values):
    """A measured point of the preset imagenet-ndv2."""
    known = {"model": "ResNet-50", "precision": "mixed_float16", "batch_per_rank": 256}
    known |= {"image_size": 224, "rates": rates}
    return Point(size, nodes, nodes * 8, **{**known, **values})
