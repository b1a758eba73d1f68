"""The steps of the workflows in .github/."""
