"""symlab measures what the parameter symmetries of neural networks do: alignment, averaging, identifiability."""

__version__ = "0.1.0"
