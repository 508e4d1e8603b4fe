"""The content of the compilers that JAX runs, as far as JAX's own key states a version only."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from importlib.metadata import Distribution, distributions

_COMPILERS = ("jax", "libtpu", "nvidia-", "neuronx", "libneuronxla")
"""How the names of packages begin that have a part of the compiler."""

_CPU_FIELDS = ("flags", "Features", "model name", "CPU implementer", "CPU part", "CPU variant")
"""Fields of `/proc/cpuinfo` that decide which instructions are generated."""


@functools.lru_cache(maxsize=None)
def toolchain(platform_name: str) -> tuple[tuple[str, bytes, str], ...]:
    """Return the installed compilers, and for `cpu` the processor: names, digests and versions. It is computed once."""
    packages = {_name(package): package for package in distributions() if _name(package).startswith(_COMPILERS)}
    parts = [(name, _content(packages[name]), packages[name].version) for name in sorted(packages)]
    if platform_name == "cpu":
        digest = hashlib.sha256()
        _add(digest, platform.machine(), _processor())
        parts.append(("cpu", digest.digest(), platform.machine()))
    return tuple(parts)


def _name(package: Distribution) -> str:
    return (package.metadata["Name"] or "").lower().replace("_", "-")


def _add(digest: hashlib._Hash, *texts: str) -> None:
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)


def _content(package: Distribution) -> bytes:
    """Return a digest of a package: of the list of its files, in which the installer wrote their digests. A library that
    changed after the list was written is read."""
    record = package.read_text("RECORD") or ""
    digest = hashlib.sha256()
    _add(digest, package.version, record)
    files = package.files or []
    written = max((_changed(str(file.locate())) for file in files if file.name == "RECORD"), default=0)
    for file in files:
        path = str(file.locate())
        if ".so" in file.suffixes and _changed(path) > written:
            _add(digest, path.rpartition("/")[2], _file_digest(path))
    return digest.digest()


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return 0


def _file_digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@functools.lru_cache(maxsize=None)
def _processor() -> str:
    """Return the features of the processor; empty if the system does not state them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n\n", 1)[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.split("\t", 1)[0].split(":", 1)[0].strip() in _CPU_FIELDS)
