"""Files up into containers and down from them, resumed and verified."""
