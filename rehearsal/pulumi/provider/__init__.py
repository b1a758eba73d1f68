"""A stand-in for Pulumi's azure-native provider, which declares resources on loopback."""
