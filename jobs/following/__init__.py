"""Follow a job to its end, and a run through its attempts."""
