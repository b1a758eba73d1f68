"""The leaf of Spark. Standard library only."""

from typing import Final

from common.program import Command
from trainer.leaf import Leaf

LEAF: Final = Leaf(
    workers={"spark": "trainer.extras.spark.preparation:on_session"},
    commands=(
        Command(
            "spark",
            "train",
            "train on a Spark cluster: ml-trainer spark --num-proc 8 -- OPTIONS of train",
            "trainer.extras.spark.command:run",
        ),
    ),
)
