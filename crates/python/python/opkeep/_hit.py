"""The files of a hit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import _native
from .errors import ArgumentError, ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self


class Hit(Mapping[str, bytes]):
    """The files of a hit: a mapping of file names and bytes, in the order in which they were published.

    The bytes were read and checked at once. The first access to a file copies its bytes, which takes about 0.1 ms for 1 MiB;
    later ones return the same object.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> cache = opkeep.Cache(directory.name, "cuda-sm_90", framework="example")
    >>> cache.publish(bytes(32), {"add.ptx": b".version 8.0", "add.json": b"{}"}, kernel="add")
    True
    >>> hit = cache.get(bytes(32))
    >>> list(hit), hit["add.json"], hit.kernel, hit.framework, hit.target
    (['add.ptx', 'add.json'], b'{}', 'add', 'example', 'cuda-sm_90')

    As of any mapping, a name that no file has raises `KeyError`.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Group) -> None:
        if not isinstance(native, _native.Group):
            raise ArgumentError("a hit cannot be created", help=["call Cache.get or Cache.get_or_begin"])
        self._native: _native.Group | None = native

    def __getitem__(self, name: str) -> bytes:
        native = self._open()
        try:
            content = native.get(name)
        except (TypeError, UnicodeEncodeError):
            # No file has such a name.
            content = None
        if content is None:
            raise KeyError(name)
        return content

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._open().names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._open().names())

    def __len__(self) -> int:
        return len(self._open().names())

    def digest(self, name: str) -> str:
        """Return the SHA-256 digest of a file, which the cache has compared with its bytes.

        >>> import hashlib, opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> cache.publish(bytes(32), {"add.ptx": b".version 8.0"})
        True
        >>> cache.get(bytes(32)).digest("add.ptx") == hashlib.sha256(b".version 8.0").hexdigest()
        True
        """
        native = self._open()
        try:
            digest = native.digest(name)
        except (TypeError, UnicodeEncodeError):
            digest = None
        if digest is None:
            raise KeyError(name)
        return digest

    @property
    def key(self) -> str:
        """The key of the entry, as `opkeep verify` and `opkeep explain` name it: a digest of all parts of the key."""
        return self._open().key

    @property
    def waited(self) -> bool:
        """Whether another caller published the files while this one waited."""
        return self._open().waited

    @property
    def from_remote(self) -> bool:
        """Whether this request took the files from the remote cache. They are in the store now, if that is written."""
        return self._open().from_remote

    @property
    def framework(self) -> str:
        """The framework that made the files; empty if a later version of opkeep wrote the entry."""
        return self._open().record().framework

    @property
    def framework_version(self) -> str:
        """The release of the framework; empty if unknown."""
        return self._open().record().framework_version

    @property
    def target(self) -> str:
        """The target; empty if a later version of opkeep wrote the entry."""
        return self._open().record().target

    @property
    def kernel(self) -> str:
        """The name of the kernel; empty if unknown."""
        return self._open().record().kernel

    @property
    def compile_time(self) -> float | None:
        """The compile time in seconds, if known."""
        return self._open().record().compile_time

    def close(self) -> None:
        """Free the bytes.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> cache.publish(bytes(32), {"add.ptx": b".version 8.0"})
        True
        >>> with cache.get(bytes(32)) as hit:
        ...     hit["add.ptx"]
        b'.version 8.0'
        >>> try:
        ...     hit["add.ptx"]
        ... except opkeep.ClosedError as error:
        ...     print(error)
        the hit was closed
        """
        self._native = None

    def _open(self) -> _native.Group:
        if self._native is None:
            raise ClosedError("the hit was closed", help=["take the files that are needed out of it before"])
        return self._native

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native is None:
            return "<closed Hit>"
        return f"<Hit {self._native.key[:12]}: {', '.join(self._native.names())}>"
