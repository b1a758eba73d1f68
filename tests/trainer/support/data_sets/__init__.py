"""Images, records and data sets of them, for tests."""
