"""Compiles the operators of neural networks once, and keeps the kernels for every process.

>>> import opkeep
>>> opkeep.__version__.count(".")
2

Importing the package loads nothing: each name loads its module when it is first used.
"""

_MODULES = {
    "__version__": "_native",
}
"""The public names, and the module that each is in."""

__all__ = [name for name in _MODULES if not name.startswith("_")]


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
