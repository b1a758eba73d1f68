"""A job followed to its end, and a run through its attempts."""
