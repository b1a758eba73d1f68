"""Time and cost of a run, before anything is rented."""
