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
def toolchain(platform_name: str) -> bytes:
    """Return a digest of the installed compilers, and for `cpu` of the processor's features. It is computed once."""
    digest = hashlib.sha256()
    packages = {_name(package): package for package in distributions() if _name(package).startswith(_COMPILERS)}
    for name in sorted(packages):
        _add(digest, name, packages[name].version, _content(packages[name]))
    if platform_name == "cpu":
        _add(digest, "cpu", platform.machine(), _processor())
    return digest.digest()


def _name(package: Distribution) -> str:
    return (package.metadata["Name"] or "").lower().replace("_", "-")


def _add(digest: hashlib._Hash, *texts: str) -> None:
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)


def _content(package: Distribution) -> str:
    """Return a digest of a package: of the list of its files, in which the installer wrote their digests. A library that
    changed after the list was written is read."""
    record = package.read_text("RECORD") or ""
    digest = hashlib.sha256(record.encode())
    files = package.files or []
    written = max((_changed(str(file.locate())) for file in files if file.name == "RECORD"), default=0)
    for file in files:
        path = str(file.locate())
        if ".so" in file.suffixes and _changed(path) > written:
            _add(digest, path.rpartition("/")[2], _file_digest(path))
    return digest.hexdigest()


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
