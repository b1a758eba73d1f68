"""Periodic averaging: ranks that update on their own, and are averaged every few steps."""
