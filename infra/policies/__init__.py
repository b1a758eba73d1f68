"""The platform's security rules: pure functions over declared resources."""
