"""The commands `build`, `diff`, `explain`, `inspect`, `ls`, `stats` and `verify`, run in this process.

Each returns the JSON result of its command as a dictionary (docs/json.md), and in it `exit_code`: 0 if all is well, 1 if the
command did its work and found problems, such as a kernel that failed or is damaged. A command that cannot read an input,
or can do nothing, raises `CommandError`; one whose arguments are not accepted, `UsageError`.

Keyword arguments are the flags of the command: `--fail-fast` is `fail_fast=True`, and `--jobs 4` is `jobs=4`. A flag that may
be repeated takes a list, `toolchain_input=["a.h", "b.h"]`, and one of names and values a mapping, `dim={"batch": 1}`.
`--op_compiler_cache_dir` and `--op_compiler_cache_mode` are `cache_dir` and `cache_mode`.

Messages go to the logger `opkeep`: warnings and errors at their levels, notes as INFO, progress as DEBUG. Ctrl-C ends the
command as it ends the program: compilers end, finished kernels are kept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from . import _native
from ._log import log
from ._paths import path_of
from .errors import CommandError, UsageError

if TYPE_CHECKING:
    from typing import Any, Literal

    from .cache import Mode
    from .results import (
        BuildResult,
        DiffResult,
        ExplainResult,
        InspectResult,
        ListResult,
        OneOrMore,
        StatsResult,
        StrPath,
        VerifyResult,
    )

_UNDERSCORED = {"op_debug_level", "op_debug_config"}
"""The flags that have underscores themselves."""

_PATHS = {"against", "cache_dir", "cann", "kernel_meta", "op_debug_config", "sign_key", "timings", "toolchain_input"}
"""The arguments that are paths."""

_LISTS = {"trusted_keys"}
"""The arguments whose values are one text, separated by spaces."""


def build(
    *models: StrPath,
    target: str | None = None,
    jobs: int | None = None,
    fail_fast: bool = False,
    nice: int | None = None,
    deadline: float | None = None,
    cache_mode: Mode | None = None,
    cache_dir: StrPath | None = None,
    trusted_owner: OneOrMore | None = None,
    dim: Mapping[str, int] | None = None,
    option: Mapping[str, object] | None = None,
    cann: StrPath | None = None,
    cann_driver: Literal["auto", "workers", "process"] | None = None,
    toolchain_input: OneOrMore | None = None,
    op_debug_level: int | None = None,
    op_debug_config: StrPath | None = None,
    trust_imported: bool = False,
    remote: str | None = None,
    remote_mode: Literal["off", "read", "read-write"] | None = None,
    remote_namespace: str | None = None,
    sign_key: StrPath | None = None,
    trusted_keys: str | Sequence[str] | None = None,
    no_kernel_meta: bool = False,
    kernel_meta: StrPath | None = None,
    explain: bool = False,
    replace: bool = False,
    build_records: Literal["on", "off"] | None = None,
    timings: StrPath | None = None,
) -> BuildResult:
    """Build networks (`.onnx`) or operators (`.info`): compile new and changed kernels, and reuse the others.

    - `target`: the target to build for, such as `cpu` or `Ascend910B1`; without it, the one that a descriptor
      names, or `cpu`.
    - `jobs`: how many compilers run at once; without it, one per processor.
    - `fail_fast`: start no further compile after a kernel failed.
    - `nice`: the niceness of compilers, 0 to 19.
    - `deadline`: the time limit of a compile in seconds; without it, 600.
    - `cache_mode`: `enable`, `force` (compile all, replace entries), `disable`, `read-only`, or `require` (a miss
      is an error).
    - `cache_dir`: the store's directory; without it, OPKEEP_CACHE_DIR, or the user's cache directory.
    - `trusted_owner`: the IDs of other users whose stored kernels may be used.
    - `dim`: the sizes of dimensions that a network leaves open: `{"batch": 1}`, or by input and axis, `{"x:0": 1}`.
    - `option`: options of the target's compiler, such as `{"deterministic": True}`; an empty text unsets one.
    - `cann`: the directory of the CANN toolkit; without it, ASCEND_HOME_PATH or the usual directories.
    - `cann_driver`: how CANN's compiler is run: `workers`, `process` or `auto`. The kernels are the same.
    - `toolchain_input`: files and directories that the compiler reads for some kernels; they are part of every key.
    - `op_debug_level`: the vendor's debug level, 0 to 4. Kernels with a level other than 0 are not stored.
    - `op_debug_config`: a file with debug options. Kernels with debug options are not stored.
    - `trust_imported`: also reuse imported kernels of an equal operator, target and options, but of an unknown
      toolchain.
    - `remote`: the URL of the cache that hosts share, such as `redis://HOST` (docs/remote.md); without it,
      OPKEEP_REMOTE, or none.
    - `remote_mode`: how the remote cache is used: `off`, `read` or `read-write`; without it, OPKEEP_REMOTE_MODE, or
      `read-write`.
    - `remote_namespace`: the part of the remote cache: products and teams that use one engine choose different names;
      without it, OPKEEP_REMOTE_NAMESPACE, or `default`.
    - `sign_key`: the file of the secret key that signs the kernels which this host shares; without it,
      OPKEEP_SIGN_KEY, or none.
    - `trusted_keys`: the public keys that are trusted, `NAME:BASE64`, or `@FILE` with a list of them. Then only
      kernels are used that one of them signed, or that this host compiled; without it, OPKEEP_TRUSTED_KEYS, or
      kernels are used without signatures.
    - `no_kernel_meta`: write no kernels to `rank_N/kernel_meta`.
    - `kernel_meta`: write kernels to this directory instead of `rank_N/kernel_meta`.
    - `explain`: add to the result why kernels were missing (`nearest` of each, and `causes`), as `explain` states it.
    - `replace`: replace kernels in `kernel_meta` that opkeep did not write; they go to a quarantine.
    - `build_records`: whether the store gets a record of the build, `on` or `off`, for `opkeep report`; without it,
      OPKEEP_BUILD_RECORDS, or `on`.
    - `timings`: write a page about this build to this file: when each thread compiled what, and what bounded the
      build.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> result = opkeep.build(
    ...     "fixtures/networks/lenet/model.onnx", target="cpu", cache_dir=directory.name, no_kernel_meta=True
    ... )
    >>> result["exit_code"], result["failed"], result["kernels"] == result["compiled"]
    (0, 0, True)
    """
    return cast("BuildResult", _run("build", models, locals()))


def explain(
    *models: StrPath,
    target: str | None = None,
    jobs: int | None = None,
    fail_fast: bool = False,
    nice: int | None = None,
    deadline: float | None = None,
    cache_mode: Mode | None = None,
    cache_dir: StrPath | None = None,
    trusted_owner: OneOrMore | None = None,
    dim: Mapping[str, int] | None = None,
    option: Mapping[str, object] | None = None,
    cann: StrPath | None = None,
    cann_driver: Literal["auto", "workers", "process"] | None = None,
    toolchain_input: OneOrMore | None = None,
    op_debug_level: int | None = None,
    op_debug_config: StrPath | None = None,
    remote: str | None = None,
    remote_mode: Literal["off", "read", "read-write"] | None = None,
    remote_namespace: str | None = None,
    sign_key: StrPath | None = None,
    trusted_keys: str | Sequence[str] | None = None,
    trust_imported: bool = False,
    against: StrPath | None = None,
    framework: str | None = None,
    kernel: str | None = None,
) -> ExplainResult:
    """Report for each kernel whether it is stored, and for a miss what the remote cache has, and how it differs from the
    nearest stored kernel.

    With `framework`, and no models: report the kernels that this framework stored, and how their keys differ.

    - `target`: the target to build for, such as `cpu` or `Ascend910B1`; without it, the one that a descriptor
      names, or `cpu`.
    - `jobs`: how many compilers run at once; without it, one per processor.
    - `fail_fast`: start no further compile after a kernel failed.
    - `nice`: the niceness of compilers, 0 to 19.
    - `deadline`: the time limit of a compile in seconds; without it, 600.
    - `cache_mode`: `enable`, `force` (compile all, replace entries), `disable`, `read-only`, or `require` (a miss
      is an error).
    - `cache_dir`: the store's directory; without it, OPKEEP_CACHE_DIR, or the user's cache directory.
    - `trusted_owner`: the IDs of other users whose stored kernels may be used.
    - `dim`: the sizes of dimensions that a network leaves open: `{"batch": 1}`, or by input and axis, `{"x:0": 1}`.
    - `option`: options of the target's compiler, such as `{"deterministic": True}`; an empty text unsets one.
    - `cann`: the directory of the CANN toolkit; without it, ASCEND_HOME_PATH or the usual directories.
    - `cann_driver`: how CANN's compiler is run: `workers`, `process` or `auto`. The kernels are the same.
    - `toolchain_input`: files and directories that the compiler reads for some kernels; they are part of every key.
    - `op_debug_level`: the vendor's debug level, 0 to 4. Kernels with a level other than 0 are not stored.
    - `op_debug_config`: a file with debug options. Kernels with debug options are not stored.
    - `remote`: the URL of the cache that hosts share; for a miss, it is asked what it has. Without it, OPKEEP_REMOTE, or
      none.
    - `remote_mode`: `off`, `read` or `read-write`, as for `build`; nothing is written in any case. Without it,
      OPKEEP_REMOTE_MODE, or `read-write`.
    - `remote_namespace`: the part of the remote cache; without it, OPKEEP_REMOTE_NAMESPACE, or `default`.
    - `sign_key`: as for `build`; without it, OPKEEP_SIGN_KEY, or none.
    - `trusted_keys`: the public keys that are trusted, as for `build`; a kernel that none of them signed is a miss.
      Without it, OPKEEP_TRUSTED_KEYS, or kernels are used without signatures.
    - `trust_imported`: explain a build with this argument.
    - `against`: report instead how the only input differs from this descriptor.
    - `framework`: report instead what is stored for this framework, such as `triton`, and how the keys of each
      kernel differ.
    - `kernel`: report this kernel of the framework only.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> result = opkeep.explain("fixtures/networks/lenet/model.onnx", target="cpu", cache_dir=directory.name)
    >>> {kernel["outcome"] for kernel in result["kernels"]}
    {'miss'}
    """
    return cast("ExplainResult", _run("explain", models, locals()))


def inspect(
    *files: StrPath,
    target: str | None = None,
    dim: Mapping[str, int] | None = None,
) -> InspectResult:
    """Describe models, kernel files, descriptors, entries or directories, and check files.

    - `target`: the target for which a model's kernels are counted; without it, cpu.
    - `dim`: the sizes of dimensions that a model leaves open.

    >>> import opkeep, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".o") as file:
    ...     result = opkeep.inspect(file.name)
    >>> result["exit_code"], result["files"][0]["valid"]
    (1, False)
    """
    return cast("InspectResult", _run("inspect", files, locals()))


def diff(a: StrPath, b: StrPath) -> DiffResult:
    """Report how two files, two directories of kernels, or two stores differ.

    Two files are compared field by field, objects also by sections and symbols; directories by the bytes of the files of
    kernels in them, and stores by keys and digests. `exit_code` is 0 if they are the same.

    >>> import opkeep, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     one, two = pathlib.Path(directory, "one"), pathlib.Path(directory, "two")
    ...     for path in (one, two):
    ...         path.mkdir()
    ...     _ = (one / "add.o").write_bytes(b"kernel")
    ...     result = opkeep.diff(one, two)
    >>> result["exit_code"], result["same"], result["only_a"], result["only_b"]
    (1, False, ['add.o'], [])
    """
    return cast("DiffResult", _run("diff", (a, b), locals()))


def ls(
    *,
    cache_dir: StrPath | None = None,
    trusted_owner: OneOrMore | None = None,
    target: str | None = None,
    operator: str | None = None,
    name: str | None = None,
    framework: str | None = None,
    state: Literal["compiled", "imported", "group", "unknown"] | None = None,
    unused: str | None = None,
    min_size: str | None = None,
    sort: Literal["name", "size", "used", "created"] | None = None,
    limit: int | None = None,
) -> ListResult:
    """List the kernels of the store that satisfy all filters.

    In a filter by a name, `*` stands for any characters, and upper or lower case makes no difference.

    - `cache_dir`: the store's directory; without it, OPKEEP_CACHE_DIR, or the user's cache directory.
    - `trusted_owner`: the IDs of other users whose stored kernels may be used.
    - `target`: list kernels for this target only.
    - `operator`: list kernels of this type of operator only.
    - `name`: list kernels with this name only.
    - `framework`: list kernels that this framework keeps only, such as `triton`; `opkeep` for its own.
    - `state`: list kernels of this state only: `compiled`, `imported`, `group` (files that a framework keeps), or
      `unknown`.
    - `unused`: list kernels only that were not used for this long: `30d`, `12h`, `45m`, `10s`.
    - `min_size`: list kernels only that are at least this large: `300K`, `2M`.
    - `sort`: the order: by `name`, the largest (`size`), the longest unused (`used`), or the newest first (`created`);
      without it, `name`.
    - `limit`: list at most this many kernels.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> with opkeep.Cache(directory.name, "cuda-sm_90") as cache:
    ...     _ = cache.publish(bytes(32), {"add.ptx": b".version 8.0"}, kernel="add")
    >>> result = opkeep.ls(cache_dir=directory.name, name="AD*")
    >>> [(kernel["name"], kernel["target"], kernel["state"]) for kernel in result["kernels"]]
    [('add', 'cuda-sm_90', 'group')]
    """
    return cast("ListResult", _run("ls", (), locals()))


def stats(
    *,
    cache_dir: StrPath | None = None,
    trusted_owner: OneOrMore | None = None,
    target: str | None = None,
    by: Literal["framework", "kernel"] | None = None,
    zero: bool = False,
) -> StatsResult:
    """Report the statistics of the store: hits, misses, compiles, time saved.

    - `cache_dir`: the store's directory; without it, OPKEEP_CACHE_DIR, or the user's cache directory.
    - `trusted_owner`: the IDs of other users whose stored kernels may be used.
    - `target`: report this target only; `*` in it stands for any characters.
    - `by`: report the entries as well, by `framework` or by `kernel`.
    - `zero`: reset the statistics after the report.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> with opkeep.Cache(directory.name, "cuda-sm_90") as cache:
    ...     _ = cache.publish(bytes(32), {"add.ptx": b".version 8.0"})
    ...     _ = cache.get(bytes(32))
    >>> result = opkeep.stats(cache_dir=directory.name)
    >>> [(target["target"], target["store"]["kernels"], target["statistics"]["hits"]) for target in result["targets"]]
    [('cuda-sm_90', 1, 1)]
    """
    return cast("StatsResult", _run("stats", (), locals()))


def verify(
    *paths: StrPath,
    cache_dir: StrPath | None = None,
    trusted_owner: OneOrMore | None = None,
    jobs: int | None = None,
    target: str | None = None,
) -> VerifyResult:
    """Check stores, caches of frameworks, or kernels in files. Changes nothing.

    - `cache_dir`: the store's directory; without it, OPKEEP_CACHE_DIR, or the user's cache directory.
    - `trusted_owner`: the IDs of other users whose stored kernels may be used.
    - `jobs`: how many entries are read at once; without it, one per processor.
    - `target`: the target of kernels in files; without it, the one that the object states, or any.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
    >>> cache.publish(bytes(32), {"add.ptx": b".version 8.0"})
    True
    >>> result = opkeep.verify(directory.name)
    >>> result["exit_code"], result["checked"], result["valid"]
    (0, 1, 1)
    """
    return cast("VerifyResult", _run("verify", paths, locals()))


FLAGS = {
    function.__name__: list(function.__kwdefaults__ or ())
    for function in (build, diff, explain, inspect, ls, stats, verify)
}
"""The keyword arguments of each command."""


def _run(command: str, paths: Iterable[StrPath], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a command, and return its result. `arguments` has the values of its keyword arguments, and may have others."""
    errors: list[str] = []
    help: list[str] = []

    def on_message(level: str, text: str) -> None:
        # Other messages may quote compilers, whose flags stay.
        text = _keywords(text) if level == "help" else text.replace("--op_compiler_cache_", "cache_")
        if level == "error":
            errors.append(text)
        elif level == "help":
            help.append(text)
        log(level, text)

    text, exit_code, error = _native.run(_arguments(command, paths, arguments), on_message)
    result: dict[str, Any] = json.loads(text) if text else {}
    if error is not None:
        text, advice = _keywords(error.text), [_keywords(one) for one in error.help]
        if error.is_usage:
            advice.append(f"help(opkeep.{command}) describes the arguments")
            raise UsageError(text, help=advice, exit_code=exit_code, result=result)
        raise CommandError(text, help=advice, exit_code=exit_code, result=result)
    if exit_code not in (0, 1):
        why = "; ".join(errors) or f"the command `{command}` failed"
        raise CommandError(why, help=help, exit_code=exit_code, result=result)
    result["exit_code"] = exit_code
    return result


def _arguments(command: str, paths: Iterable[StrPath], arguments: Mapping[str, Any]) -> list[str]:
    """Return the command line, without the program."""
    line = [command]
    for name in FLAGS[command]:
        flag = "--" + (name if name in _UNDERSCORED else name.replace("_", "-"))
        value = arguments[name]
        if name in _PATHS:
            several = isinstance(value, (list, tuple))
            value = [path_of(name, one) for one in (value if several else [value]) if one is not None]
        if name in _LISTS and isinstance(value, (list, tuple)):
            value = " ".join(map(_text, value))
        line += [flag if text is None else f"{flag}={text}" for text in _values(value)]
    return [*line, "--", *(path_of("paths", path) for path in paths)]


def _keywords(text: str) -> str:
    """Return a text of the command with keyword arguments in place of flags: `jobs=N` for `--jobs N` and `'--jobs <N>'`."""
    return _FLAG.sub(_keyword, text)


_FLAG = re.compile(r"('?)--([a-z][a-z_-]*)(?:[ =](?:<([A-Z0-9]+(?:[=-][A-Z0-9]+)?)>|([A-Z]+=?[A-Z]*\b|\d+)))?\1")


def _keyword(flag: re.Match[str]) -> str:
    name = flag[2].replace("-", "_").replace("op_compiler_cache_", "cache_")
    if not any(name in known for known in FLAGS.values()):
        return flag[0]
    value = flag[3] or flag[4]
    quote = "`" if flag[1] else ""
    return f"{quote}{name}={value}{quote}" if value else f"{quote}{name}{quote}"


def _values(value: Any) -> Iterable[str | None]:
    """Return the texts of a flag, once for each time that it is given; None if the flag takes no value."""
    if value is None or value is False:
        return []
    if value is True:
        return [None]
    if isinstance(value, Mapping):
        return [f"{name}={_text(one)}" for name, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value]
    return [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)
