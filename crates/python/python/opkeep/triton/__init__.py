"""The cache manager for Triton.

Set one variable, and install opkeep where Triton is:

    export TRITON_CACHE_MANAGER=opkeep.triton:CacheManager

Then one process compiles a kernel while the others wait, and every byte of it is checked whenever it is used again. The page
docs/triton.md has the rest.
"""

from ._manager import CacheManager

__all__ = ["CacheManager"]
