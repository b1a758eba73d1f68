"""Which choice to take, for one run or for many."""
