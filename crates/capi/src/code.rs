//! The enumerations of the interface. Values are never changed and never used again; later versions add some.

/// The result of a call. Not that of a request for files, which is an `opkeep_outcome`: there, 0 is an error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The call succeeded.
    Ok = 0,
    /// An argument is not valid: a null pointer, a wrong size of a struct, an unknown flag or mode, a text that is not UTF-8
    /// or too long, rules without an object.
    Argument = 1,
    /// The handle was released before, or never was a handle of this kind.
    Handle = 2,
    /// A name of a framework, a target or a file is not valid. File names with directories are not.
    Name = 3,
    /// The group cannot be published: no files, too many or too large ones, an empty file, a repeated name, or a kernel
    /// that is not among the files.
    Group = 4,
    /// The kernel breaks its rules. Nothing was published.
    Kernel = 5,
    /// The rules cannot be read, or there are none for this target.
    Rules = 6,
    /// The ticket was published or abandoned before.
    TicketEnded = 7,
    /// The ticket belongs to the process that forked this one.
    Forked = 8,
    /// The store cannot be used as the mode requires, or could not write the files.
    Store = 9,
    /// The mode forbids making the files, and they are not in the store.
    NotCached = 10,
    /// There is no file, finding or warning with this name or index.
    NotFound = 11,
    /// A file that is no part of the store cannot be read.
    Io = 12,
    /// A fault of opkeep itself. The call had no effect, or none that can be stated.
    Internal = 13,
    /// The caller makes the files, and other callers may make them as well; the message is the reason. No error.
    Unshared = 14,
    /// Another caller failed to make the files, for a reason that holds for this one as well; the message is that reason.
    HolderFailed = 15,
    /// The time of the request passed while another caller made the files.
    TimedOut = 16,
    /// The request was cancelled while another caller made the files.
    Cancelled = 17,
    /// The files are not there, and this caller does not make them now. No error.
    Pending = 18,
}

/// The result of a request for files: `opkeep_get`, `opkeep_get_or_begin`, `opkeep_get_or_begin_many`. Not an `opkeep_code`: there, 0 is success.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request failed; `opkeep_last_code` and `opkeep_last_message` have the reason. There is no handle to release.
    Error = 0,
    /// The files are there: the hit is set, and must be released.
    Hit = 1,
    /// The files are not there. There is no handle to release. `opkeep_get` only.
    Miss = 2,
    /// The caller makes the files, and all other callers on this host wait, with a remote cache also those on other hosts: the
    /// ticket is set, and must be released.
    Begin = 3,
    /// The caller makes the files, and other callers may make them as well: the ticket is set, and must be released.
    /// `opkeep_last_message` has the reason.
    Unshared = 4,
    /// Another caller failed while this one waited, for a reason that holds for this one as well: `opkeep_last_message` has
    /// it. There is no handle to release.
    HolderFailed = 5,
    /// The time passed while another caller made the files. There is no handle to release.
    TimedOut = 6,
    /// The wait was cancelled. There is no handle to release.
    Cancelled = 7,
    /// The files are not there, and this caller does not make them now: another one makes them, or this one has as many tickets
    /// as it asked for. There is no handle to release. `opkeep_get_or_begin_many` only.
    Pending = 8,
}

/// The use of the store.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Files that are there are used; missing ones are made and published.
    Enable = 0,
    /// All files are made once, and replace those that are there: `opkeep_get` and `opkeep_get_or_begin` use only what was
    /// made since the cache was opened.
    Force = 1,
    /// The store is neither read nor written.
    Disable = 2,
    /// Files that are there are used; nothing is written. A store that cannot be read is an error.
    ReadOnly = 3,
    /// Files that are there are used; missing ones are an error, and so is a store that cannot be read. For hosts that must not
    /// compile.
    Require = 4,
}

/// A kind of kernels that opkeep has rules for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Kernels with CANN's `.json`, for an Ascend chip such as `Ascend910B1`, or for a host such as `cpu-x86_64`.
    Cann = 0,
    /// NVIDIA's cubins, for an architecture such as `sm_90`; the JSON metadata name the kernel in `name`.
    Cubin = 1,
    /// AMD's hsacos, for an architecture such as `gfx942`; the JSON metadata name the kernel in `name`.
    Hsaco = 2,
}

/// The severity of a finding.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Information; genuine kernels have such findings.
    Note = 0,
    /// Unusual, but no specification forbids it.
    Warning = 1,
    /// The kernel is not valid.
    Error = 2,
}

/// The subject of a warning.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// Any other subject.
    Other = 0,
    /// The store cannot be used at all.
    Store = 1,
    /// Files cannot be written.
    Keeping = 2,
    /// Files cannot be read, or are not trusted.
    Reading = 3,
    /// An entry is damaged; it is made again.
    Corruption = 4,
    /// A limit of the store is not valid and is ignored.
    Limits = 5,
    /// Locks cannot be taken.
    Locks = 6,
    /// The remote tier does not work as it should.
    Remote = 7,
}
