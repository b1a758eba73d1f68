"""Numbers in the documents are those of the committed measurements."""

import re

import pytest

from tools.benchmarks.documents import DOCUMENTS, SHOW, TABLE, filled, result


def test_the_tables_of_the_documents_are_those_of_the_raw_rounds():
    texts = [document.read_text() for document in DOCUMENTS]
    assert [filled(text) for text in texts] == texts
    names = {name for text in texts for name in TABLE.findall(text)}
    assert names == {*SHOW, "summary"}


@pytest.mark.parametrize("name", SHOW)
def test_measurements_say_what_they_were_taken_on_and_keep_every_round(name):
    data = result(name)
    # A table may show a part of a benchmark, with rounds of its own.
    parts = r"-(breakdown|default-memory|removal|large)$"
    assert data["benchmark"] == re.sub(parts, "", name)
    assert {"tensorflow-cpu", "horovod", "processor", "cores"} <= data["environment"].keys()
    assert len(data["environment"]["load_average"]) == len(data["load_average_after"]) == 3
    options = data["options"]
    if name == "reencode":
        # One count, whose interval tells the noise.
        assert data["images"] == options["images"] >= 1000
        return
    if name == "spot":
        # Simulated from recorded traces, so that each takes the same every time.
        assert len(data["traces"]) == 10
        return
    if name == "spark-prepare":
        # Peaks of whole preparations, the same images with each number of executors.
        assert [run["executors"] for run in data["runs"]] == options["executors"] == [1, 2]
        return
    # Two seeds show that runs of few steps differ by more than ways to train.
    # The ranges of three seeds of fine-tuning are far apart, and so are those on own images.
    # Bounded memory and the slope of the time show in one round of 800,000 images.
    least = {"batches": 2, "fine-tune": 3, "own-images": 3, "growth-large": 1}.get(name, 5)
    assert options.get("rounds", options.get("kills", len(options.get("seeds", ())))) >= least
