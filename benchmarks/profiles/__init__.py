"""Analysis of profiles and timelines of a run."""
