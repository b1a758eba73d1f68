"""A stand-in for Pulumi's azure-native provider that deploys to loopback."""
