"""The types of the commands' results. docs/json.md states what each field means.

>>> from opkeep.results import BuildResult
>>> "kernels" in BuildResult.__annotations__
True
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Union

StrPath = Union[str, "os.PathLike[str]"]
"""A path."""

OneOrMore = Union[str, int, "os.PathLike[str]", "Sequence[str | int | os.PathLike[str]]"]
"""A value, or several."""


class Result(TypedDict):
    """The fields of every result."""

    schema: int
    warnings: list[str]
    exit_code: Literal[0, 1]


class FileError(TypedDict):
    """A path that could not be read."""

    file: str
    error: str


class Imported(TypedDict):
    """The origin of an imported kernel."""

    folder: str
    name: str
    framework: str
    said: dict[str, str]
    has_options: bool
    at: int
    toolchain: None
    op_sources: None


class _ExplainedMiss(TypedDict, total=False):
    """The field of a kernel that was missing, with `explain`."""

    nearest: Nearest | None
    former: Former | None


class BuiltKernel(_ExplainedMiss):
    """A kernel of a build."""

    name: str
    key: str | None
    op_type: str
    operators: list[str]
    outcome: Literal["reused", "compiled", "shared", "bypassed", "skipped", "cancelled", "failed"]
    reason: str | None
    imported: Imported | None
    from_remote: bool
    compile_ms: float | None
    saved_ms: float | None
    bytes: int | None


class RefusedContent(TypedDict):
    """What was refused of the content of the remote cache."""

    damaged: int
    unsigned: int
    untrusted: int
    forged: int
    invalid: int


class RemoteUse(TypedDict):
    """What a build did with the remote cache."""

    received: int
    by_other_hosts: int
    bytes_received: int
    sent: int
    bytes_sent: int
    unsent: int
    uploads_refused: int
    uploads_unsent: int
    takeovers: int
    host_waits: int
    refused: RefusedContent
    failed_calls: int


class LostTime(TypedDict):
    """The time in which a build did nothing but wait."""

    process_ms: float
    host_ms: float
    remote_ms: float


class LeftAlone(TypedDict, total=False):
    """A kernel of a framework that was not replaced."""

    name: str
    reason: str
    why: str
    machine: str | None
    e_flags: int | None
    architecture: str | None
    chip: str | None


class _BuildPlacement(TypedDict, total=False):
    """The fields of a build that are absent if the kernels were not placed, if all inputs could be read, or without `explain` or `timings`."""

    timings: str
    causes: list[Cause]

    kernel_meta: str
    contested_names: list[str]
    unusable_names: list[str]
    names_in_parts: list[str]
    left_alone: list[LeftAlone]
    kernel_meta_quarantine: str | None
    kernel_meta_displaced: list[str]
    kernel_meta_risk: str | None
    kernel_meta_error: str
    unreadable: list[FileError]


class BuildResult(Result, _BuildPlacement):
    """The result of `build`."""

    network: str | None
    target: str
    targets: list[str]
    backend: str
    operators: int
    kernels: int
    reused: int
    compiled: int
    shared: int
    bypassed: int
    skipped: int
    cancelled: int
    failed: int
    from_remote: int
    remote: RemoteUse | None
    lost: LostTime
    elapsed_ms: float
    saved_ms: float
    results: list[BuiltKernel]
    interrupted: bool


class Difference(TypedDict):
    """A field that differs."""

    path: str
    old: str
    new: str


class Nearest(TypedDict):
    """The stored kernel that explains a miss best: of the same job, if there is one."""

    name: str
    key: str
    made_by: str
    same_job: bool
    key_schema: list[int] | None
    job: list[Difference]
    spec: list[Difference]
    toolchain: list[str]
    op_sources: list[str]
    consequences: list[str]


class Former(TypedDict):
    """What the store knows of the entry of a missing kernel."""

    state: Literal["removed", "not-kept", "quarantined", "interrupted", "other-failed", "failed"]
    at: int
    host: str | None
    compiled: bool | None
    reason: str | None


class Cause(TypedDict):
    """A cause of misses, with its kernels as indices into the list of kernels."""

    cause: Literal[
        "key-changed",
        "removed",
        "not-kept",
        "interrupted",
        "other-failed",
        "failed",
        "quarantined",
        "damaged",
        "untrusted",
        "new-job",
        "new-operators",
        "other",
    ]
    text: str
    example: str | None
    kernels: list[int]
    key_schema: list[int] | None
    toolchain: list[str]
    spec: list[Difference]
    op_sources: dict[str, int]
    consequences: list[str]
    made_by: list[str]
    comparison: bool
    evictions: int | None
    cleared: int | None


class Lookup(TypedDict):
    """A place where kernels were looked for, and how many it has."""

    place: Literal["store", "remote"]
    location: str
    namespace: str | None
    asked: int
    found: int
    absent: int
    refused: RefusedContent
    unknown: int
    paused: bool
    reason: str | None


class RemoteKernel(TypedDict):
    """What the remote cache has of a kernel."""

    state: Literal["available", "refused", "absent", "unknown"]
    bytes: int | None
    refusal: Literal["damaged", "unsigned", "untrusted", "forged", "invalid"] | None
    reason: str | None


class ExplainedKernel(TypedDict, total=False):
    """A kernel and whether it is stored."""

    name: str
    key: str | None
    op_type: str
    operators: list[str]
    outcome: Literal["hit", "miss", "bypassed", "refused"]
    reason: str
    nearest: Nearest | None
    former: Former | None
    imported: Imported | None
    imported_problem: str | None
    remote: RemoteKernel


class Compiler(TypedDict):
    """A compiler whose content is part of a key."""

    name: str
    note: str
    digest: str


class ExplainedGroup(TypedDict):
    """A group of files of a framework, and how its key differs from that of the newest."""

    target: str
    framework: str
    framework_version: str
    kernel: str
    name: str
    key: str
    framework_key: str
    toolchain: list[Compiler]
    created: int
    bytes: int
    differences: list[str]


class ComparedFile(TypedDict):
    """A file in Triton's directory, compared with an entry."""

    name: str
    state: Literal["same", "differs", "missing", "extra"]


class ExplainedDirectory(TypedDict):
    """A kernel in Triton's directory, and the entry that it differs from least."""

    file: str
    kernel: str
    target: str
    framework_key: str
    outcome: Literal["hit", "miss"]
    key: str | None
    files: list[ComparedFile]
    problems: list[str]
    differences: list[str]


class ExplainResult(Result, total=False):
    """The result of `explain`: `kernels`, `causes` and `lookups`, with `against` `job` and `spec`, with `framework` `groups`, of a key `kernels` and
    `groups`, of Triton's directory `directories` and `groups`."""

    kernels: list[ExplainedKernel]
    causes: list[Cause]
    lookups: list[Lookup]
    job: list[Difference]
    spec: list[Difference]
    groups: list[ExplainedGroup]
    directories: list[ExplainedDirectory]
    root: str
    near: list[str]
    unreadable: list[FileError]


class Finding(TypedDict):
    """A finding of the validator."""

    code: str
    severity: Literal["error", "warning", "note"]
    message: str
    hint: str
    more: int


class ModelValue(TypedDict):
    """An input or output of a model."""

    name: str
    dtype: str | None
    shape: list[str] | None


class OpenDimension(TypedDict):
    """A dimension without a size."""

    name: str
    places: list[str]


class ModelOperator(TypedDict):
    """An operator of a model."""

    domain: str
    type: str
    count: int
    refused: str | None


class RefusedNode(TypedDict):
    """A node that is not built."""

    node: str
    type: str
    reason: str


class ModelBuild(TypedDict):
    """What a build of a model would do."""

    target: str
    operators: int | None
    kernels: int | None
    refused: list[RefusedNode]
    unknown: str | None


class InspectedModel(TypedDict):
    """An ONNX model."""

    graph: str
    ir_version: int
    opsets: dict[str, int]
    nodes: int
    initializers: int
    inputs: list[ModelValue]
    outputs: list[ModelValue]
    open_dims: list[OpenDimension]
    operators: list[ModelOperator]
    build: ModelBuild


class InspectedDirectory(TypedDict):
    """A store's target, or a cache."""

    what: str
    target: str | None
    rank: str | None
    kernels: int
    states: dict[str, int]
    files: int
    bytes: int
    oldest_seconds: int | None
    newest_seconds: int | None
    next: str


class Section(TypedDict):
    """A section of an object."""

    name: str
    bytes: int
    sha256: str | None


class Symbol(TypedDict):
    """A symbol of an object. `section` is an index into its sections."""

    name: str
    kind: Literal["function", "object", "symbol"]
    is_global: bool
    section: int | None
    bytes: int
    sha256: str | None


class InspectedObject(TypedDict):
    """The sections and symbols of an object."""

    sections: list[Section]
    symbols: list[Symbol]


class InspectedFile(TypedDict, total=False):
    """A file: `file` and `error`, or all other fields.

    `model`, `directory` and `object` are those of a model, a directory and an object.
    """

    file: str
    error: str
    kind: str
    valid: bool
    fields: dict[str, str]
    problems: list[str]
    findings: list[Finding]
    model: InspectedModel
    directory: InspectedDirectory
    object: InspectedObject


class InspectResult(Result):
    """The result of `inspect`."""

    files: list[InspectedFile]


class NotCompared(TypedDict):
    """What was not compared, with the reason."""

    name: str
    reason: str


class DiffChange(TypedDict):
    """A field of two files that differs; None in the file that lacks it."""

    field: str
    a: str | None
    b: str | None


class DiffResult(Result):
    """The result of `diff`."""

    kind: Literal["files", "directories", "stores"]
    a: str
    b: str
    same: bool
    changes: list[DiffChange]
    equal: int
    only_a: list[str]
    only_b: list[str]
    differing: list[str]
    not_compared: list[NotCompared]


class ListedKernel(TypedDict):
    """A kernel of the store."""

    target: str
    key: str
    name: str
    op_type: str
    framework: str
    state: Literal["compiled", "imported", "group", "unknown"]
    bytes: int
    age_seconds: int
    unused_seconds: int


class ListResult(Result):
    """The result of `ls`."""

    root: str
    kernels_count: int
    bytes: int
    unreadable: int
    kernels: list[ListedKernel]


class Counts(TypedDict):
    """What was counted in a target."""

    since: int
    hits: int
    absent: int
    damaged: int
    untrusted: int
    trouble: int
    compiles: int
    compile_ms: float
    waits: int
    wait_ms: float
    saved_ms: float
    puts: int
    evictions: int
    cleared: int
    quarantines: int
    bytes_read: int
    bytes_written: int
    bytes_evicted: int
    bytes_cleared: int
    remote_hits: int
    remote_puts: int
    remote_errors: int
    remote_shared: int
    remote_bytes_received: int
    remote_bytes_sent: int
    remote_failures: int
    uploads_refused: int
    uploads_unsent: int
    host_waits: int
    takeovers: int
    lost_process_ms: float
    lost_host_ms: float
    lost_remote_ms: float
    refused_damaged: int
    refused_unsigned: int
    refused_untrusted: int
    refused_forged: int
    refused_invalid: int


class Quarantined(TypedDict):
    """The kernels that are quarantined, with the files of their reasons."""

    kernels: int
    files: int
    bytes: int


class Stored(TypedDict):
    """What is stored for a target."""

    kernels: int
    kernel_bytes: int
    files: int
    bytes: int
    quarantined: Quarantined


class Content(TypedDict, total=False):
    """The entries of a framework, or of one kernel of a framework."""

    framework: str | None
    kernel: str | None
    entries: int
    bytes: int


class _TargetContents(TypedDict, total=False):
    """The field that is absent without `by`."""

    contents: list[Content]


class TargetStats(_TargetContents):
    """The statistics of a target."""

    target: str
    store: Stored
    unsent: int
    statistics: Counts


class _StatsLimits(TypedDict, total=False):
    """The fields that are absent if there is no store."""

    max_bytes: int | None
    max_entries: int | None
    remain_percent: int
    total: Counts


class StatsResult(Result, _StatsLimits):
    """The result of `stats`."""

    root: str
    targets: list[TargetStats]


class VerifiedFile(TypedDict, total=False):
    """A kernel in a file: `file` and `error`, or all other fields."""

    file: str
    error: str
    object: str | None
    target: str
    valid: bool
    problems: list[str]
    unverifiable: str | None
    findings: list[Finding]


class VerifyResult(Result):
    """The result of `verify`. docs/json.md has the fields of stores, caches, ranks and Triton's directories."""

    checked: int
    valid: int
    refused: int
    unusable: int
    rests: int
    in_progress: int
    passed_over: list[str]
    passed_over_count: int
    files: list[VerifiedFile]
    stores: list[dict[str, Any]]
    caches: list[dict[str, Any]]
    ranks: list[dict[str, Any]]
    triton: list[dict[str, Any]]
