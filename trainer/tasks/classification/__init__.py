"""Classification, the default task: one class per image."""
