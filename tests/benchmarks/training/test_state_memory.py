"""Memory of an optimizer's state: what the table says of ResNet50."""

from benchmarks.training.state_memory import parameters, rows
from tests import ROOT


def test_the_table_of_the_document_has_the_lines_of_resnet50():
    lines = rows("resnet", parameters("resnet"), (8, 64))
    text = (ROOT / "docs" / "parallelism.md").read_text()
    assert all(f"| {' | '.join(line)} |" in text for line in lines)
    # 25,557,032 parameters, one velocity of 4 bytes each.
    assert lines[0][3] == "102 MB"
