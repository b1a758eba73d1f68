"""Durations, as Azure writes them."""

import pytest

from rehearsal.control_plane.azure_formats import duration_seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("PT6H", 21600), ("P7D", 604800), ("PT1H2M3.5S", 3723.5), ("PT0S", 0)]
)
def test_durations_are_those_of_iso_8601(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["6h", "PT5", "-PT5S", "PT", ""])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds(text)
