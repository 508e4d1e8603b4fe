"""The content of the compilers that JAX runs, as far as JAX's own key states a version only."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shutil
from importlib.metadata import Distribution, distributions

_COMPILERS = ("jax", "libtpu", "nvidia-", "neuronx", "libneuronxla")
"""How the names of packages begin that have a part of the compiler."""

_CPU_FIELDS = ("flags", "Features", "model name", "CPU implementer", "CPU part", "CPU variant")
"""Fields of `/proc/cpuinfo` that decide which instructions are generated."""

_GPU_TOOLS = ("ptxas", "nvlink")
"""Programs of CUDA that XLA runs, from a package of the compilers or from elsewhere."""

_CUDA_VARIABLES = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")
"""Variables with directories of CUDA."""

_LIBDEVICE = os.path.join("nvvm", "libdevice", "libdevice.10.bc")
"""A library of CUDA that XLA links into kernels, below a directory of CUDA."""

_CUDNN = r"nvidia-cudnn-cu\d+"
_CUDA_PACKAGES = (r"nvidia-cuda-nvcc(-cu\d+)?", _CUDNN)
_PACKAGES_OF_PLATFORMS: dict[str, tuple[str, ...]] = {
    "cpu": (),
    "cuda": _CUDA_PACKAGES,
    "gpu": _CUDA_PACKAGES,
    "neuron": ("neuronx-cc",),
    "tpu": ("libtpu",),
}
"""The names of the packages that have all compilers and libraries of a platform, as patterns: a package such as
`nvidia-cudnn-frontend` has no library."""

Part = tuple[str, bytes, str]
"""A name, a digest and a note."""


def toolchain(platform_name: str) -> tuple[Part, ...]:
    """Return the installed compilers, for `cpu` the processor, and for GPUs CUDA's programs as they are now."""
    if platform_name == "cpu":
        return packages() + _cpu()
    return packages() + (_programs() if platform_name in ("gpu", "cuda") else ())


def is_known(platform_name: str) -> bool:
    """Whether the toolchain has all that decides what is made for a platform, so that other hosts may use it.

    It does not if a compiler or library is not from a package: cuDNN of the system, or ROCm."""
    expected = _PACKAGES_OF_PLATFORMS.get(platform_name)
    names = [name for name, _, _ in packages()]
    if expected is None or not all(any(re.fullmatch(one, name) for name in names) for one in expected):
        return False
    return _CUDNN not in expected or not _has_other_cudnn()


def _has_other_cudnn() -> bool:
    """Whether the loader may prefer a cuDNN to that of the package."""
    for directory in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
        try:
            if any(name.startswith("libcudnn") for name in os.listdir(directory)):
                return True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            # The loader can open files in a directory that cannot be listed.
            return True
    return False


@functools.lru_cache(maxsize=None)
def packages() -> tuple[Part, ...]:
    """Return the installed packages with compilers. They are those of the first call: this process has loaded them."""
    found = {_name(package): package for package in distributions() if _name(package).startswith(_COMPILERS)}
    return tuple((name, _content(found[name]), found[name].version) for name in sorted(found))


@functools.lru_cache(maxsize=None)
def _cpu() -> tuple[Part, ...]:
    digest = hashlib.sha256()
    _add(digest, platform.machine(), _processor())
    return (("cpu", digest.digest(), platform.machine()),)


def _programs() -> tuple[Part, ...]:
    """Return CUDA's programs, and its library of functions, wherever XLA may find them."""
    named = [os.environ.get(variable, "") for variable in _CUDA_VARIABLES]
    named += re.findall(r"--xla_gpu_cuda_data_dir=(\S+)", os.environ.get("XLA_FLAGS", ""))
    roots = [root for root in [*named, "/usr/local/cuda"] if root]
    directories = [os.path.join(root, "bin") for root in roots]
    paths = [shutil.which(name, path=path) for name in _GPU_TOOLS for path in (None, *directories)]
    libraries = [os.path.join(root, _LIBDEVICE) for root in roots]
    paths += [path for path in libraries if os.path.isfile(path)]
    return tuple(_program(path) for path in dict.fromkeys(filter(None, paths)))


def _program(path: str) -> Part:
    stat = os.stat(path)
    digest = _digest_in_state(path, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return (os.path.basename(path), bytes.fromhex(digest), path)


@functools.lru_cache(maxsize=None)
def _digest_in_state(path: str, *_: int) -> str:
    """Return the digest of a file, which is computed once in each state."""
    return _file_digest(path)


def _name(package: Distribution) -> str:
    return (package.metadata["Name"] or "").lower().replace("_", "-")


def _add(digest: hashlib._Hash, *texts: str) -> None:
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)


def _content(package: Distribution) -> bytes:
    """Return a digest of a package: of the list of its files, in which the installer wrote their digests. A library,
    program or bitcode file that changed after the list was written is read."""
    record = package.read_text("RECORD") or ""
    digest = hashlib.sha256()
    _add(digest, package.version, record)
    files = package.files or []
    written = max((_changed(str(file.locate())) for file in files if file.name == "RECORD"), default=0)
    for file in files:
        path = str(file.locate())
        is_code = ".so" in file.suffixes or file.suffix == ".bc" or file.parent.name == "bin"
        if is_code and _changed(path) > written:
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
