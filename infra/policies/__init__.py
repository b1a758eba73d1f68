"""The security rules of the platform: pure functions over declared resources."""
