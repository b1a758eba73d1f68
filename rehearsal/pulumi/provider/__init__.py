"""Answers Pulumi's engine in place of azure-native, and deploys to the simulator."""
