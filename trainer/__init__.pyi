from trainer.api import evaluate as evaluate
from trainer.api import fit as fit
from trainer.api import load as load

__version__: str
