"""MLflow, which the environment configures. Standard library only."""

from trainer.leaf import Leaf

LEAF = Leaf(observer="trainer.extras.mlflow.logger:mlflow_logger")
