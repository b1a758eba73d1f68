"""What the steps of the workflows in .github/ do."""
