"""The commands `build`, `explain`, `inspect`, `stats` and `verify`, run in this process.

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
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from . import _native
from ._log import log
from .cache import path_of
from .errors import CommandError, UsageError

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Unpack

    from .results import BuildResult, ExplainResult, InspectResult, StatsResult, VerifyResult
    from .results import BuildFlags, ExplainFlags, StatsFlags, StrPath, VerifyFlags

_STORE = ["cache_dir", "trusted_owner"]
_COMPILE = [
    *(
        "target",
        "jobs",
        "fail_fast",
        "nice",
        "deadline",
        "cache_mode",
        "dim",
        "option",
        "cann",
        "cann_driver",
    ),
    *("toolchain_input", "op_debug_level", "op_debug_config"),
]

FLAGS = {
    "build": [*_COMPILE, *_STORE, "no_kernel_meta", "kernel_meta", "replace", "trust_imported"],
    "explain": [*_COMPILE, *_STORE, "against", "framework", "kernel", "trust_imported"],
    "inspect": [],
    "stats": [*_STORE, "by", "zero"],
    "verify": [*_STORE, "jobs", "target"],
}
"""The keyword arguments of each command."""

_UNDERSCORED = {"op_debug_level", "op_debug_config"}
"""The flags that have underscores themselves."""


def build(*models: StrPath, **flags: Unpack[BuildFlags]) -> BuildResult:
    """Build networks (`.onnx`) or operators (`.info`): compile new and changed kernels, and reuse the others.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> result = opkeep.build(
    ...     "fixtures/networks/lenet/model.onnx", target="cpu", cache_dir=directory.name, no_kernel_meta=True
    ... )
    >>> result["exit_code"], result["failed"], result["kernels"] == result["compiled"]
    (0, 0, True)
    """
    return cast("BuildResult", _run("build", models, flags))


def explain(*models: StrPath, **flags: Unpack[ExplainFlags]) -> ExplainResult:
    """Report for each kernel whether it is stored, and for a miss how it differs from the nearest stored kernel.

    With `framework`, and no models: report the kernels that this framework stored, and how their keys differ.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> result = opkeep.explain("fixtures/networks/lenet/model.onnx", target="cpu", cache_dir=directory.name)
    >>> {kernel["outcome"] for kernel in result["kernels"]}
    {'miss'}
    """
    return cast("ExplainResult", _run("explain", models, flags))


def inspect(*files: StrPath) -> InspectResult:
    """Describe `.info`, `.json`, `.o`, `.so` or `.kern` files field by field, and check them.

    >>> import opkeep, tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".o") as file:
    ...     result = opkeep.inspect(file.name)
    >>> result["exit_code"], result["files"][0]["valid"]
    (1, False)
    """
    return cast("InspectResult", _run("inspect", files, {}))


def stats(**flags: Unpack[StatsFlags]) -> StatsResult:
    """Report the statistics of the store: hits, misses, compiles, time saved.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> with opkeep.Cache(directory.name, "cuda-sm_90") as cache:
    ...     _ = cache.publish(bytes(32), {"add.ptx": b".version 8.0"})
    ...     _ = cache.get(bytes(32))
    >>> result = opkeep.stats(cache_dir=directory.name)
    >>> [(target["target"], target["store"]["kernels"], target["statistics"]["hits"]) for target in result["targets"]]
    [('cuda-sm_90', 1, 1)]
    """
    return cast("StatsResult", _run("stats", (), flags))


def verify(*paths: StrPath, **flags: Unpack[VerifyFlags]) -> VerifyResult:
    """Check stores, caches of frameworks, or kernels in files. Changes nothing.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
    >>> cache.publish(bytes(32), {"add.ptx": b".version 8.0"})
    True
    >>> result = opkeep.verify(directory.name)
    >>> result["exit_code"], result["checked"], result["valid"]
    (0, 1, 1)
    """
    return cast("VerifyResult", _run("verify", paths, flags))


def _run(command: str, paths: Iterable[StrPath], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Run a command, and return its result."""
    errors: list[str] = []
    help: list[str] = []

    def on_message(level: str, text: str) -> None:
        if level == "error":
            errors.append(text)
        elif level == "help":
            help.append(text)
        log(level, text)

    text, exit_code, error = _native.run(_arguments(command, paths, flags), on_message)
    result: dict[str, Any] = json.loads(text) if text else {}
    if error is not None:
        if error.is_usage:
            advice = [*error.help, f"help(opkeep.{command}) describes the arguments"]
            raise UsageError(error.text, help=_keywords(advice), exit_code=exit_code, result=result)
        raise CommandError(error.text, help=_keywords(error.help), exit_code=exit_code, result=result)
    if exit_code not in (0, 1):
        why = "; ".join(errors) or f"the command `{command}` failed"
        raise CommandError(why, help=_keywords(help), exit_code=exit_code, result=result)
    result["exit_code"] = exit_code
    return result


def _arguments(command: str, paths: Iterable[StrPath], flags: Mapping[str, Any]) -> list[str]:
    """Return the command line, without the program."""
    line = [command]
    for name, value in flags.items():
        if name not in FLAGS[command]:
            known = ", ".join(sorted(FLAGS[command])) or "none"
            raise TypeError(f"{command}() got an unexpected keyword argument {name!r}; expected: {known}")
        flag = "--" + (name if name in _UNDERSCORED else name.replace("_", "-"))
        line += [flag if text is None else f"{flag}={text}" for text in _values(value)]
    return [*line, "--", *(path_of("paths", path) for path in paths)]


def _keywords(help: Iterable[str]) -> list[str]:
    """Return advice of the command with keyword arguments in place of flags: `jobs=N` for `--jobs N`."""
    return [_FLAG.sub(_keyword, text) for text in help]


_FLAG = re.compile(r"--([a-z][a-z_-]*)(?: ([A-Z]+=?[A-Z]*\b|\d+))?")


def _keyword(flag: re.Match[str]) -> str:
    name = flag[1].replace("-", "_").replace("op_compiler_cache_", "cache_")
    if not any(name in known for known in FLAGS.values()):
        return flag[0]
    return f"{name}={flag[2]}" if flag[2] else name


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
