"""The rules, by their subject."""
