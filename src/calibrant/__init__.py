"""Know whether a model's probabilities can be trusted."""

__version__ = "0.1.0"
