"""Data sets of one stack copied to another, such as one in another region."""
