"""Networks: ResNets, those of Keras, and own ones."""
