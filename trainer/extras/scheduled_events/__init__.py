"""Leaf: what Azure announces about the VM of a rank."""
