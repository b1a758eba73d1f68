"""Virtual ranks: steps whose bits do not depend on the number of ranks."""
