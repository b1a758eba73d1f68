"""A stack rendered without Azure: its resources, and their cost, roles, egress and snapshot."""
