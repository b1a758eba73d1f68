"""Early stopping: a run that no longer improves on held-out images ends, and its best weights are
its result.
"""
