"""Commands that look back on runs: what they cost, and how they compare."""
