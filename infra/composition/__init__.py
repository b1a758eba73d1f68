"""The composition: all components of one stack, in the order in which Azure needs them."""
