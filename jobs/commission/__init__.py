"""The first day on a subscription: what was only rehearsed meets Azure, and facts are noted."""
