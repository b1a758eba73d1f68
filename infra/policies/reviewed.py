"""The closed world: every type and input that the platform declares has been reviewed.

A table of expected values cannot name what nobody thought of, such as a property of a new API
version. So every input must either be in a rule's table or be listed here as one that opens nothing
by itself, and every type of Azure resource must be known.
"""
