"""Initial weights from files of Keras 3."""
