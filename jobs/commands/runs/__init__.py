"""Commands that look back on runs: their costs, and how they compare."""
