"""The cache manager for Triton."""

from __future__ import annotations

import json
import os
import platform
import sys
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _native
from .._log import logger
from ..errors import Error, ForkedTicketError, TicketEndedError
from . import _stock, _store, _tickets
from ._compile import Compile, compile_in, frame_of_compile
from ._log import warn_once
from ._sharing import has_host_code, stays_here
from ._toolchain import forget_versions, host_toolchain, toolchain_after, toolchain_of

if TYPE_CHECKING:
    from types import FrameType

    from ._unkept import UnkeptFiles


class NewFiles(NamedTuple):
    """Files to publish. The native module reads the names of the fields."""

    files: list[tuple[str, bytes]]
    kernel: str
    framework_version: str
    object: str | None
    metadata: str | None
    is_local: bool


_BUNDLER = "torch._inductor.triton_bundler"
"""The module of Inductor that carries kernels in its own cache."""

_INDUCTOR = "torch._inductor"
"""The package that reads kernels in the directory of Triton's own key."""


class _Place(NamedTuple):
    """Where files are, and what made them."""

    store: _native.TritonFiles
    toolchain: _native.Toolchain
    compile: Compile
    directory: _native.Directory
    prefix: str
    """The start of the paths of files in the directory."""


class CacheManager:
    """Keeps what Triton compiles under one key, for any number of processes.

    Triton creates it. With `override` or `dump`, which a person uses to look into a compile, Triton's own manager is created
    instead. No fault of the cache makes a compile fail: there is a warning in the log `opkeep`, and Triton compiles.

    >>> from opkeep.triton import CacheManager
    >>> CacheManager("KEY").has_file("add.cubin")
    False
    """

    def __new__(cls, key: str, override: bool = False, dump: bool = False) -> Any:
        return _stock.manager(key, override, dump) if override or dump else super().__new__(cls)

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key
        self._base = _stock.base_dir()
        if not self._base:
            # As Triton's own manager.
            raise RuntimeError("Triton has no directory for its cache: TRITON_CACHE_DIR is empty")
        self.cache_dir = os.path.join(self._base, self.key)
        self._files: dict[str, bytes] = {}
        self._paths: dict[str, str] = {}
        self._single: dict[str, _Place] = {}
        self._place: _Place | None = None
        self._ticket: _native.TritonTicket | None = None
        self._waits = False
        self._own: Any = None
        self._unkept_files: UnkeptFiles | None = None

    def __getattr__(self, name: str) -> Any:
        # What Triton's own manager has besides, in one release or another.
        if name.startswith("_") and name != "_make_path":
            raise AttributeError(name)
        return getattr(self._own_manager(), name)

    def has_file(self, filename: str) -> bool:
        """Return whether this manager has found the file, or was given it.

        A file that an earlier compile left does not count: triton-ascend takes it as a mark of a compile that failed.
        """
        return filename in self._paths

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the paths of a kernel's files by name. None: the caller compiles, and others wait for it."""
        caller = sys._getframe(1)
        try:
            frame = frame_of_compile(caller)
            place = self._place_of(frame)
            if place.compile.is_overridden:
                return None
            self._place = place
            names = self._get_or_begin(filename, place, True, frame or caller)
            if names is None and self._ticket is not None:
                names = self._take_over(filename, place, self._ticket)
        except Exception as error:  # A compiler is missing, or Triton raises what its drivers raise.
            self._failed(error)
            return None
        if names is None:
            return None
        paths = {name: place.prefix + name for name in names}
        self._paths.update(paths)
        return paths

    def get_file(self, filename: str) -> str | None:
        """Return the path of a file, or None. Others wait for the caller if it is a library, which takes long to compile."""
        if self.has_file(filename):
            return self._paths[filename]
        is_library = filename.endswith(".so")
        if is_library and _stock.knob("build", "impl") is not None:
            # A function of the program compiles: what it does is in no key.
            return None
        try:
            place = self._single[filename] = self._host_place(is_library)
            if is_library:
                names = self._get_or_begin(filename, place, False, sys._getframe(1))
            else:
                # Triton tunes while other processes may wait for this one in a collective operation: so there is no wait here.
                names = place.store.get(self.key, filename, place.toolchain, place.directory)
        except Exception as error:
            self._failed(error)
            return None
        if names is None:
            return None
        path = self._paths[filename] = place.prefix + filename
        return path

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        """Write a file, and return its path. A file that `get_file` did not find is published."""
        content = data if isinstance(data, bytes) else str(data).encode()
        single = self._single.get(filename)
        place = single or self._place
        try:
            if place is None:
                path = self._unkept().write(filename, content)
            else:
                (place.directory.write if single is None else place.directory.place)(filename, content)
                path = place.prefix + filename
        except (Error, OSError) as error:
            warn_once("directory", error, error)
            # It fails as it does without this manager, or not at all.
            path = str(self._own_manager().put(data, filename, binary))
        self._files[filename] = content
        self._paths[filename] = path
        if single is not None:
            files = NewFiles([(filename, content)], "", _stock.version(), None, None, True)
            try:
                if filename.endswith(".so"):
                    forget_versions()
                if self._is_same(single.toolchain, host_toolchain(filename.endswith(".so")), filename):
                    self._publish(filename, single, files)
            except Exception as error:
                self._failed(error)
        return path

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Publish the files of a kernel, which were put before."""
        list_name = f"__grp__{filename}"
        try:
            # Without a place, the caller did not ask before.
            place = self._place or self._place_of(frame_of_compile(sys._getframe(1)))
            if self._keep(filename, group, place):
                return os.path.join(self.cache_dir, list_name)
        except Exception as error:
            self._failed(error)
        if _INDUCTOR in sys.modules:
            self._place_for_inductor(list_name, group)
        return self.put(json.dumps({"child_paths": group}), list_name, binary=False)

    def _place_for_inductor(self, list_name: str, group: dict[str, str]) -> None:
        """Make the files of a group that is not kept lie in the directory of Triton's own key. Inductor reads the files of its own
        compiles there, and would find those of another one."""
        files = {name: self._files[name] for name in group if name in self._files}
        paths = {name: os.path.join(self.cache_dir, name) for name in group}
        # The list comes last: it is what Triton looks for.
        files[list_name] = json.dumps({"child_paths": paths}).encode()
        try:
            directory = _native.Directory(self._base, self.key)
            for name, content in files.items():
                directory.write(name, content)
        except (Error, OSError) as error:
            warn_once("directory", error, error)
            # It fails as it does without this manager, or not at all.
            for name, content in files.items():
                self._own_manager().put(content, name)

    def _keep(self, filename: str, group: dict[str, str], place: _Place) -> bool:
        """Publish the files of a group, and make them lie where bundlers look. Return whether that was done."""
        if place.compile.is_overridden:
            return False
        if not self._is_same(place.toolchain, toolchain_after(place.compile), filename):
            return False
        if not self._files.keys() >= group.keys():
            # An earlier kernel's files are among them: no group of one compile.
            self.release()
            return False
        new = [(name, self._files[name]) for name in group]
        files = self._described(filename, new, place.compile, _stock.version())
        if not self._publish(filename, place, files):
            return False
        place.store.place(self.key, filename, place.toolchain, place.directory, files)
        return True

    @property
    def has_ticket(self) -> bool:
        """Whether others wait for this manager."""
        return self._ticket is not None

    def release(self) -> None:
        """End the ticket, so that one of the others makes the files."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            try:
                ticket.abandon()
            except Error as error:
                logger.debug("%s", error)

    def _is_same(self, before: _native.Toolchain, after: _native.Toolchain, filename: str) -> bool:
        """Whether no compiler changed during a compile. Otherwise, the ticket ends."""
        is_same = after == before
        if not is_same:
            self.release()
            logger.info("%s: a compiler changed during the compile, so it is not kept", filename)
        return is_same

    def _get_or_begin(
        self, filename: str, place: _Place, is_group: bool, frame: FrameType
    ) -> list[str] | None:
        _tickets.release_ended(self, frame)
        try:
            self._waits = True
            names, self._ticket = place.store.get_or_begin(
                self.key, filename, place.toolchain, place.directory, is_group
            )
            self._waits = False
            if self._ticket is not None:
                _tickets.watch(self, frame)
        except BaseException:
            # Ctrl-C: the ticket may not be watched yet.
            self.release()
            raise
        return names

    def _publish(self, filename: str, place: _Place, files: NewFiles) -> bool:
        """Publish with the ticket; without one, in place of what is stored. Return whether that worked."""
        try:
            if self._ticket is not None:
                try:
                    self._ticket.publish(files)
                    return True
                except (TicketEndedError, ForkedTicketError) as error:
                    logger.debug("%s: %s", filename, error)
            place.store.publish(self.key, filename, place.toolchain, files)
            return True
        except Error as error:
            # The next process compiles again.
            warn_once(type(error).__name__, f"{filename} of {self.key} is not kept: {error}")
            return False
        finally:
            # Also where the files are not valid: an exception that is kept would keep the ticket.
            self.release()

    def _described(
        self, filename: str, files: list[tuple[str, bytes]], compile: Compile, version: str
    ) -> NewFiles:
        """Return the files of a kernel, with what the validator and reports need."""
        kernel = json.loads(dict(files).get(filename, b"{}")).get("name")
        suffix = compile.object_suffix
        objects = [name for name, _ in files if suffix is not None and name.endswith(suffix)]
        is_local = stays_here(compile) or has_host_code(files)
        return NewFiles(
            files, str(kernel or ""), version, objects[0] if objects else None, filename, is_local
        )

    def _take_over(self, filename: str, place: _Place, ticket: _native.TritonTicket) -> list[str] | None:
        """Keep a group of these compilers that Inductor restored, if there is one and this host has no keys: it stays on this host.
        Return the names of its files."""
        if _BUNDLER not in sys.modules:
            return None
        restored = place.store.restored(self.key, filename, place.toolchain, place.directory)
        if restored is None or not self._is_listed(filename, restored):
            return None
        version = f"{_stock.version()} (restored by Inductor)"
        files = self._described(filename, restored, place.compile, version)
        try:
            ticket.keep_found(files)
        except Error as error:
            logger.info("%s of %s was restored by Inductor, and is compiled again: %s", filename, self.key, str(error))
            return None
        self._ticket = None
        place.store.place(self.key, filename, place.toolchain, place.directory, files)
        return [name for name, _ in restored]

    def _is_listed(self, filename: str, files: list[tuple[str, bytes]]) -> bool:
        """Whether Triton's list beside a group has exactly these files."""
        try:
            with open(os.path.join(self.cache_dir, f"__grp__{filename}"), "rb") as file:
                listed = json.load(file)["child_paths"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return isinstance(listed, dict) and listed.keys() == {name for name, _ in files}

    def _failed(self, error: Exception) -> None:
        """Go on without the store."""
        self.release()
        waits, self._waits = self._waits, False
        if waits and not isinstance(error, (Error, UnicodeError)):
            # A signal handler raised it: it is the program's.
            raise error
        warn_once(type(error).__name__, f"Triton goes on without the cache: {type(error).__name__}: {error}", error)

    def _unkept(self) -> UnkeptFiles:
        """Return the files of a compile that is not kept."""
        if self._unkept_files is None:
            from ._unkept import UnkeptFiles

            self._unkept_files = UnkeptFiles(self._base, self.key)
        return self._unkept_files

    def _own_manager(self) -> Any:
        if self._own is None:
            self._own = _stock.manager(self.key)
        return self._own

    def _place_of(self, frame: FrameType | None) -> _Place:
        """Return the place of the files of a compile."""
        compile = compile_in(frame)
        store = _store.files_for(compile.target_name, is_local=stays_here(compile))
        return self._new_place(store, toolchain_of(compile), compile)

    def _host_place(self, is_library: bool) -> _Place:
        """Return the place of a file for this machine."""
        store = _store.files_for(f"host-{platform.machine()}", is_local=True)
        return self._new_place(store, host_toolchain(is_library), Compile(None, None, None, False))

    def _new_place(self, store: _native.TritonFiles, toolchain: _native.Toolchain, compile: Compile) -> _Place:
        json_prefix = encode_basestring_ascii(self.cache_dir + os.sep)[:-1]
        directory = store.directory(self._base, self.key, toolchain, json_prefix, _INDUCTOR in sys.modules)
        return _Place(store, toolchain, compile, directory, f"{self._base}{os.sep}{directory.name}{os.sep}")
