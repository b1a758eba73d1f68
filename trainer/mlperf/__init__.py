"""The log of a run in the form of MLPerf."""
