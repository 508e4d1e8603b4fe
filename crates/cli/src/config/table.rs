//! The table of all settings. Flags, variables, files, `opkeep config`, its template and docs/configuration.md follow it.

use super::checks::{self, Check};
use super::projects::ProjectRule;

/// What a setting is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A string with a path, relative to the file.
    Path,
    /// An array of strings with paths, relative to the file.
    Paths,
    /// An array of whole numbers.
    Wholes,
    /// A string with a program and arguments. A program with a `/` in its name is relative to the file.
    Program,
    /// A string with a URL, which may have a password.
    Url,
    /// A string or an array of strings with public keys or `@FILE`, relative to the file.
    Keys,
}

/// A variable of the environment.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    /// The directory below the one in the variable that is the value.
    pub(crate) below: Option<&'static str>,
}

/// A setting: a value that a flag, a variable or a file gives.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The key in a file: of a setting in a section, `SECTION.NAME`.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// The problem of a value, or of an element of a list.
    pub(crate) check: Check,
    /// Whether this check also judges variables. The others are judged where they are used.
    pub(crate) checks_variables: bool,
    /// The flag without `--`.
    pub(crate) flag: Option<&'static str>,
    /// The variables: the first that is set counts.
    pub(crate) variables: &'static [Variable],
    /// Whether an empty variable is a value, as if it was not empty.
    pub(crate) empty_counts: bool,
    /// What a project's file may say of it.
    pub(crate) projects: ProjectRule,
    /// The value if unset, in words.
    pub(crate) default: &'static str,
    /// A value, as in a file.
    pub(crate) example: &'static str,
    /// One sentence.
    pub(crate) help: &'static str,
}

impl Setting {
    /// Returns the section in a file; empty for a setting before all sections.
    pub(crate) fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Returns the key in its section.
    pub(crate) fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }
}

const fn variable(name: &'static str) -> Variable {
    Variable { name, below: None }
}

/// What most settings have in common. There is no default for what a project may set.
const fn setting(projects: ProjectRule) -> Setting {
    Setting {
        key: "",
        kind: Kind::Text,
        check: checks::any,
        checks_variables: true,
        flag: None,
        variables: &[],
        empty_counts: false,
        projects,
        default: "none",
        example: "",
        help: "",
    }
}

/// What the settings have in common that `opkeep-remote` reads from variables, and judges.
const REMOTE: Setting =
    Setting { checks_variables: false, empty_counts: true, ..setting(ProjectRule::IfTrusted) };

pub(crate) static TARGET: Setting = Setting {
    key: "target",
    flag: Some("target"),
    variables: &[variable("OPKEEP_TARGET")],
    default: "cpu; for `build` and `explain` the chip that a descriptor names, if its toolchain is installed",
    example: "\"Ascend910B1\"",
    help: "The target to build for, whatever the descriptors name.",
    ..setting(ProjectRule::Any)
};

pub(crate) static JOBS: Setting = Setting {
    key: "jobs",
    kind: Kind::Whole,
    check: |text| checks::job_count(text).map(drop),
    flag: Some("jobs"),
    variables: &[variable("OPKEEP_JOBS")],
    default: "one per processor",
    example: "8",
    help: "The number of compilers that run at once, and of threads when a model runs.",
    ..setting(ProjectRule::JOBS)
};

pub(crate) static NICE: Setting = Setting {
    key: "nice",
    kind: Kind::Whole,
    check: |text| checks::niceness(text).map(drop),
    flag: Some("nice"),
    variables: &[variable("OPKEEP_NICE")],
    default: "0",
    example: "10",
    help: "The niceness of compilers, 0 to 19.",
    ..setting(ProjectRule::NICE)
};

pub(crate) static DEADLINE: Setting = Setting {
    key: "deadline",
    kind: Kind::Number,
    check: |text| checks::seconds(text).map(drop),
    flag: Some("deadline"),
    variables: &[variable("OPKEEP_DEADLINE")],
    default: "600",
    example: "1200",
    help: "The time limit of a compile in seconds.",
    ..setting(ProjectRule::DEADLINE)
};

pub(crate) static TRUSTED_PROJECTS: Setting = Setting {
    key: "trusted-projects",
    kind: Kind::Paths,
    variables: &[variable("OPKEEP_TRUSTED_PROJECTS")],
    example: "[\"/home/me/work\"]",
    help: "Directories with projects whose `opkeep.toml` may decide which code runs and what is deleted, at or below them.",
    ..setting(ProjectRule::Never)
};

pub(crate) static STORE_DIR: Setting = Setting {
    key: "store.dir",
    kind: Kind::Path,
    flag: Some("op_compiler_cache_dir"),
    variables: &[variable("OPKEEP_CACHE_DIR"), Variable { name: "ASCEND_CACHE_PATH", below: Some("opkeep") }],
    default: "`$XDG_CACHE_HOME/opkeep`, if unset `~/.cache/opkeep`",
    example: "\"/scratch/me/opkeep\"",
    help: "The store's directory.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static STORE_MODE: Setting = Setting {
    key: "store.mode",
    check: |text| checks::mode(text).map(drop).map_err(|error| error.to_string()),
    flag: Some("op_compiler_cache_mode"),
    variables: &[variable("OPKEEP_CACHE_MODE")],
    default: "enable",
    example: "\"read-only\"",
    help: "How the store is used: enable, force, disable, read-only or require.",
    ..setting(ProjectRule::MODE)
};

pub(crate) static TRUSTED_OWNERS: Setting = Setting {
    key: "store.trusted-owners",
    kind: Kind::Wholes,
    check: |text| checks::user_id(text).map(drop),
    flag: Some("trusted-owner"),
    variables: &[variable("OPKEEP_TRUSTED_OWNERS")],
    example: "[1000]",
    help: "The user IDs of other users whose stored kernels may be used.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static MAX_SIZE: Setting = Setting {
    key: "store.max-size-mb",
    kind: Kind::Whole,
    check: checks::max_size,
    checks_variables: false,
    variables: &[variable("ASCEND_MAX_OP_CACHE_SIZE")],
    default: "500",
    example: "2000",
    help: "The limit of each target's directory in MiB; -1 for no limit.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static REMAIN_PERCENT: Setting = Setting {
    key: "store.remain-percent",
    kind: Kind::Whole,
    check: checks::remain_percent,
    checks_variables: false,
    variables: &[variable("ASCEND_REMAIN_CACHE_SIZE_RATIO")],
    default: "50",
    example: "70",
    help: "The part of the limit that an eviction leaves, in percent.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static MAX_ENTRIES: Setting = Setting {
    key: "store.max-entries",
    kind: Kind::Whole,
    check: checks::max_entries,
    checks_variables: false,
    variables: &[variable("OPKEEP_MAX_CACHE_ENTRIES")],
    default: "no limit",
    example: "10000",
    help: "The limit on the number of kernels of each target.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static BUILD_RECORDS: Setting = Setting {
    key: "store.build-records",
    check: |text| checks::switch(text).map(drop),
    flag: Some("build-records"),
    variables: &[variable("OPKEEP_BUILD_RECORDS")],
    default: "on",
    example: "\"off\"",
    help: "Whether the store gets a record of each build, on or off: `opkeep report` shows them.",
    ..setting(ProjectRule::OFF)
};

pub(crate) static REMOTE_URL: Setting = Setting {
    key: "remote.url",
    kind: Kind::Url,
    check: checks::url,
    flag: Some("remote"),
    variables: &[variable("OPKEEP_REMOTE")],
    example: "\"redis://cache.example\"",
    help: "The engine in which hosts share kernels. An empty variable: none.",
    ..REMOTE
};

pub(crate) static REMOTE_MODE: Setting = Setting {
    key: "remote.mode",
    check: checks::remote_mode,
    flag: Some("remote-mode"),
    variables: &[variable("OPKEEP_REMOTE_MODE")],
    default: "read-write",
    example: "\"read\"",
    help: "How the remote cache is used: off, read or read-write.",
    ..REMOTE
};

pub(crate) static REMOTE_NAMESPACE: Setting = Setting {
    key: "remote.namespace",
    check: checks::namespace,
    flag: Some("remote-namespace"),
    variables: &[variable("OPKEEP_REMOTE_NAMESPACE")],
    default: "default",
    example: "\"vision\"",
    help: "The part of the remote cache: products and teams choose different names.",
    ..REMOTE
};

pub(crate) static REMOTE_HEADERS_FILE: Setting = Setting {
    key: "remote.headers-file",
    kind: Kind::Path,
    variables: &[variable("OPKEEP_REMOTE_HEADERS_FILE")],
    example: "\"headers\"",
    help: "A file of lines such as `authorization: Bearer TOKEN` for servers of `grpc://`.",
    ..REMOTE
};

pub(crate) static REMOTE_TLS_CA: Setting = Setting {
    key: "remote.tls-ca",
    kind: Kind::Path,
    variables: &[variable("OPKEEP_REMOTE_TLS_CA")],
    default: "the system's authorities",
    example: "\"ca.pem\"",
    help: "A PEM file of the authorities that are trusted for TLS.",
    ..REMOTE
};

pub(crate) static REMOTE_TLS_CERTIFICATE: Setting = Setting {
    key: "remote.tls-certificate",
    kind: Kind::Path,
    variables: &[variable("OPKEEP_REMOTE_TLS_CERTIFICATE")],
    example: "\"client.pem\"",
    help: "A PEM file with this client's certificate.",
    ..REMOTE
};

pub(crate) static REMOTE_TLS_KEY: Setting = Setting {
    key: "remote.tls-key",
    kind: Kind::Path,
    variables: &[variable("OPKEEP_REMOTE_TLS_KEY")],
    default: "the file of the certificate",
    example: "\"client.key\"",
    help: "A PEM file with the certificate's key.",
    ..REMOTE
};

pub(crate) static TRUSTED_KEYS: Setting = Setting {
    key: "trust.trusted-keys",
    kind: Kind::Keys,
    check: checks::keys,
    flag: Some("trusted-keys"),
    variables: &[variable("OPKEEP_TRUSTED_KEYS")],
    default: "none: kernels are used without signatures",
    example: "[\"@trusted-keys\"]",
    help: "The public keys that are trusted, NAME:BASE64, or @FILE with a list of them.",
    ..REMOTE
};

pub(crate) static SIGN_KEY: Setting = Setting {
    key: "trust.sign-key",
    kind: Kind::Path,
    check: checks::key_file,
    flag: Some("sign-key"),
    variables: &[variable("OPKEEP_SIGN_KEY")],
    example: "\"/home/me/.config/opkeep/key\"",
    help: "The file of the secret key that signs what this host compiles and shares.",
    ..REMOTE
};

pub(crate) static CC: Setting = Setting {
    key: "compiler.cc",
    kind: Kind::Program,
    variables: &[variable("CC")],
    default: "the first of cc, gcc and clang",
    example: "\"clang-16\"",
    help: "The C compiler of the target cpu, and arguments for it.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static CANN: Setting = Setting {
    key: "compiler.cann",
    kind: Kind::Path,
    flag: Some("cann"),
    variables: &[variable("ASCEND_HOME_PATH"), variable("ASCEND_TOOLKIT_HOME"), variable("ASCEND_OPP_PATH")],
    default: "the usual directories",
    example: "\"/usr/local/Ascend/ascend-toolkit/latest\"",
    help: "The directory of the CANN toolkit.",
    ..setting(ProjectRule::IfTrusted)
};

pub(crate) static CANN_DRIVER: Setting = Setting {
    key: "compiler.cann-driver",
    check: |text| checks::cann_driver(text).map(drop),
    flag: Some("cann-driver"),
    variables: &[variable("OPKEEP_CANN_DRIVER")],
    default: "auto",
    example: "\"workers\"",
    help: "How CANN's compiler is run: auto, workers or process.",
    ..setting(ProjectRule::DRIVER)
};

pub(crate) static TOOLCHAIN_INPUTS: Setting = Setting {
    key: "compiler.toolchain-inputs",
    kind: Kind::Paths,
    flag: Some("toolchain-input"),
    variables: &[variable("OPKEEP_TOOLCHAIN_INPUTS")],
    example: "[\"include\"]",
    help: "Files and directories that the compiler reads for some kernels. Flags add to them.",
    ..setting(ProjectRule::IfTrusted)
};

/// All settings, in the order of reports: those of a section follow each other.
pub(crate) static ALL: [&Setting; 25] = [
    &TARGET,
    &JOBS,
    &NICE,
    &DEADLINE,
    &TRUSTED_PROJECTS,
    &STORE_DIR,
    &STORE_MODE,
    &TRUSTED_OWNERS,
    &MAX_SIZE,
    &REMAIN_PERCENT,
    &MAX_ENTRIES,
    &BUILD_RECORDS,
    &REMOTE_URL,
    &REMOTE_MODE,
    &REMOTE_NAMESPACE,
    &REMOTE_HEADERS_FILE,
    &REMOTE_TLS_CA,
    &REMOTE_TLS_CERTIFICATE,
    &REMOTE_TLS_KEY,
    &TRUSTED_KEYS,
    &SIGN_KEY,
    &CC,
    &CANN,
    &CANN_DRIVER,
    &TOOLCHAIN_INPUTS,
];

/// Returns the names of the sections.
pub(crate) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = ALL.iter().map(|setting| setting.section()).collect();
    sections.dedup();
    sections.retain(|section| !section.is_empty());
    sections
}
