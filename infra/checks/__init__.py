"""Checks of settings against each other, by subject; `infra.validation` runs them."""
