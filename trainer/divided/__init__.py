"""Networks that are divided over ranks or devices."""
