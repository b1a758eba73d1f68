"""Functions on all ranks, by `HorovodRunner`."""

import os

import pytest

from trainer.extras.spark.driver import TrainingError
from trainer.extras.spark.runner import HorovodRunner

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def make_main():
    """A function of no module, as in a notebook."""

    def main(scale, fails_on=None):
        import horovod.tensorflow as hvd
        import tensorflow as tf

        hvd.init()
        if hvd.rank() == fails_on:
            raise KeyError("no such column")
        total = hvd.allreduce(tf.constant([scale * (hvd.rank() + 1.0)]), op=hvd.Sum)
        return {"rank": hvd.rank(), "size": hvd.size(), "sum": float(total[0]), "of": os.getpid()}

    return main


def test_a_function_runs_on_all_ranks_and_returns_what_rank_0_does(spark):
    result = HorovodRunner(np=2).run(make_main(), scale=2.0)
    assert (result["rank"], result["size"], result["sum"]) == (0, 2, 6.0)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_negative_number_runs_on_the_driver(spark_path, monkeypatch, ranks):
    monkeypatch.setenv("PYTHONPATH", spark_path["PYTHONPATH"])
    result = HorovodRunner(np=-ranks).run(make_main(), scale=1.0)
    assert (result["size"], result["sum"]) == (ranks, sum(range(ranks + 1)))
    assert result["of"] != os.getpid()


def test_a_function_that_fails_on_a_rank_fails(spark, capsys):
    with pytest.raises(TrainingError, match="status 1"):
        HorovodRunner(np=2).run(make_main(), scale=2.0, fails_on=1)
    assert "KeyError: 'no such column'" in capsys.readouterr().err
