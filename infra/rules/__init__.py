"""The platform's security rules, by their subject: pure functions over declared resources."""
