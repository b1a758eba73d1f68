"""A trace of capacity: read from a file, and followed by what there is for jobs."""

import pytest

from rehearsal.capacity import Market, Moment, Trace

TRACE = Trace([Moment(0, 4, 2.5), Moment(1.5, 1, 3.0), Moment(3, 4, 2.0)])


def test_a_trace_is_read_as_it_was_written(tmp_path):
    TRACE.write(tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text().splitlines()[:2] == [
        "hours,nodes,price",
        "0,4,2.5000",
    ]
    assert Trace.read(tmp_path / "trace.csv") == TRACE
    assert [TRACE.at(hours).nodes for hours in (0, 1.49, 1.5, 2.9, 3, 99)] == [4, 4, 1, 1, 4, 4]


@pytest.mark.parametrize(
    "text", ["", "hours,nodes\n0,1\n", "hours,nodes,price\n1,1,1\n", "hours,nodes,price\n0,a,1\n",
             "hours,nodes,price\n0,1,1\n2,1,1\n1,1,1\n"]
)  # fmt: skip
def test_another_file_is_refused_by_name(tmp_path, text):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(ValueError, match=r"trace\.csv: "):
        Trace.read(tmp_path / "trace.csv")


def test_the_newest_jobs_lose_their_nodes_once_until_the_rest_fits():
    running, taken, limits, prices = {"old": 1, "new": 2, "newest": 1}, [], [], []
    market = Market(
        TRACE,
        1.0,
        lambda: ["spot"],
        lambda _: dict(running),
        lambda cluster, nodes: limits.append((cluster, nodes)),
        taken.append,
        prices.append,
    )
    market.step(0)
    assert taken == []
    market.step(2)
    market.step(2)
    assert taken == ["newest", "new"]
    del running["newest"], running["new"]
    market.step(3)
    assert (limits[0], limits[1], limits[-1]) == (("spot", 4), ("spot", 1), ("spot", 4))
    assert (prices[0], prices[-1], len(taken)) == (2.5, 2.0, 2)
