"""What preparing and reading data cost."""
