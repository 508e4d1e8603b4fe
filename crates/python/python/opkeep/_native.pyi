"""The native part of opkeep."""

__version__: str
