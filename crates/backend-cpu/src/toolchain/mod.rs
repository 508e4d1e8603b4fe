//! Finding the compiler, and what it reads.
//!
//! A dry run (`-###`) reports what the compiler is, and so which flags it is given. It does not report all that the
//! compiler reads, so a [`probe`](mod@probe) compiles two small sources. That shows every program that takes part, the arguments
//! that it gets (so `-march=native` shows as this machine's features), and every file that is read.
//!
//! # What is in the key
//!
//! | value | part | counts |
//! |---|---|---|
//! | every file that the compiler reads when it compiles the two sources | toolchain | by content, in the order of reading |
//! | the arguments of each step, less paths; flags as the driver resolves them | toolchain | yes |
//! | files and directories that the user declares | toolchain | by content |
//! | version of the launch ABI | toolchain | yes |
//! | the C source of the operator, and what the linker reads for libm if the source calls it | op sources | by content |
//! | where the compiler is installed, names of headers and flag files, file dates | | never |
//! | with a wrapper: its name, and what the probe looked at, see [`looks`] | toolchain | yes |
//!
//! # How a compile is held to its key
//!
//! 1. The probe is observed: seccomp's user notification reports each system call that names a file.
//! 2. The probe runs once more in the Landlock domain of the files that it read, observed again. The steps and the
//!    objects must be equal. Otherwise Landlock is of no use here, and each compile is observed. Where nothing can be
//!    observed, [`dependencies`] states what is read, and no kernel that a wrapper compiled is stored.
//! 3. Compiles run in that domain, with the same system calls refused as in the probe. A compile that fails, or prints
//!    what the probe did not print, runs once more and is observed, so that the error names the file. A job never
//!    widens the set of files; a user declares what some jobs need ([`CpuConfig::inputs`](crate::CpuConfig::inputs)).
//! 4. With a [`wrapper`], each compile is both confined and observed, since Landlock denies no look.
//!
//! A kernel that does not call the mathematical library may read what the source without it read, and no more: its key
//! has nothing else.
//!
//! # What is remembered
//!
//! The digest cache keeps an observation (`FileDigests::remember`) under a question: driver, words of CC, PATH,
//! declared inputs, host, processor. It is used again only if each file has the same content and each other path is as
//! it was: about 150 system calls. A wrapper may depend on what is in no file, so its dry run is repeated each time and
//! compared. A record is used only where the means that it names exist, because containers may share the directory.
//!
//! Nothing is remembered where programs cannot be observed, since a file that appears would not be noticed. Each
//! process probes again there, and its keys differ from those of other hosts.

mod cc;
mod dependencies;
mod driver_query;
mod hex;
mod libraries;
mod looks;
mod made_up;
mod part_names;
mod probe;
mod programs;
mod record;
mod runs;
mod shared_query;
mod toolchain_files;
mod words;
mod wrapper;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use opkeep_backend::{BackendError, Context, FileDigests};
use opkeep_digest::{Digest, Fingerprint, Hasher};
use opkeep_fs::Fs;
use opkeep_process::{Declared, Domain, Inputs, InputsError, Observation, Observer, Unchanged};
use opkeep_text::counted;

use cc::Cc;
pub(crate) use dependencies::{FLAGS as DEPENDENCY_FLAGS, read as read_dependencies};
use driver_query::{DriverInfo, DriverQuery, PendingQuery, unusable};
use looks::Looks;
use part_names::{CALLED_AS, FLAGS, INTERMEDIATE, LOOKED_UP, OBJECT, ORDER, STEPS, note_of_file};
pub(crate) use part_names::{LIBM, align_changes, describe_change, is_consequence};
use probe::Probe;
use programs::is_elf;
pub(crate) use record::Means;
use record::{Probed, Read, Record};
pub(crate) use runs::{environment, foreign};
pub(crate) use shared_query::SharedQuery;

use crate::config::{CpuConfig, Features, LAUNCH_ABI};

/// The form of records: another form is another question.
const RECORD: u64 = 8;

/// A C compiler, as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    cc: Cc,
    /// The declared inputs: a name without the path, and the digest.
    declared: Vec<(String, Digest)>,
    record: Record,
    /// The files and directories that users declare.
    declared_roots: Vec<PathBuf>,
    /// The files that compiles without the mathematical library may read: those that the probe read, and those that were
    /// declared.
    plain: Inputs,
    /// The files that compiles with it may read.
    with_libm: Inputs,
}

/// A compiler that was found and is being asked.
pub(crate) struct Ahead {
    cc: Cc,
    begun: PendingQuery,
}

impl Ahead {
    /// Finds the compiler and begins to ask it, if it has to be asked each time.
    pub(crate) fn begin(config: &CpuConfig, cx: &Context<'_>) -> Result<Option<Self>, BackendError> {
        let cc = Cc::find(config)?;
        if is_elf(&cc.driver) {
            return Ok(None);
        }
        let begun = DriverQuery::new(config, cx, &cc.driver, &cc.leading).begin()?;
        Ok(Some(Self { cc, begun }))
    }

    /// Ends a question that no caller waits for.
    pub(crate) fn terminate(self) {
        self.begun.terminate();
    }
}

impl Toolchain {
    /// Finds the compiler, and finds out what it reads unless that is remembered and still holds.
    pub(crate) fn find(
        config: &CpuConfig,
        cx: &Context<'_>,
        ahead: Option<Ahead>,
    ) -> Result<Self, BackendError> {
        let files = cx.files;
        let (cc, begun) = match ahead {
            Some(Ahead { cc, begun }) => (cc, Some(begun)),
            None => (Cc::find(config)?, None),
        };
        let question = question(config, &cc);
        let recalled = files.recall(&question).and_then(|bytes| Record::decode(&bytes));
        // A container may share the directory for temporary files, and have other means.
        let has_means = |record: &Record| {
            let is_observed = record.probed.means == Means::Observation || record.probed.is_wrapped;
            (record.probed.means != Means::Landlock || Domain::is_available())
                && (!is_observed || Observer::is_available())
        };
        let recalled = recalled.filter(|record| {
            has_means(record) && record.probed.inputs.unchanged(&|path| files.digest(path)) == Unchanged::Yes
        });
        let asked = DriverQuery::new(config, cx, &cc.driver, &cc.leading);
        // A wrapper's answer may depend on more than files.
        let dry_run = match &recalled {
            Some(record) if !record.probed.is_wrapped => None,
            _ => {
                let begun = begun.map_or_else(|| asked.begin(), Ok)?;
                Some(asked.dry_run(begun)?)
            }
        };
        let record = match (recalled, dry_run) {
            (Some(record), None) => record,
            (Some(record), Some(dry_run)) if record.shown == shown(&dry_run) => record,
            (_, Some(dry_run)) => {
                let record = probe(config, cx, &cc, dry_run)?;
                if let Some(bytes) = record.encode() {
                    files.remember(&question, &bytes);
                }
                record
            }
            (None, None) => return Err(unusable("it was not asked".to_owned())),
        };
        let mut with_libm = record.probed.inputs.clone();
        let mut plain = with_libm
            .only(|path| record.probed.plain.read.iter().any(|Read { path: read, .. }| read == path));
        let declared = declared(config, files)?;
        with_libm.add_declared(&declared);
        plain.add_declared(&declared);
        let declared = parts(declared, record.probed.is_wrapped);
        Ok(Self { cc, declared, declared_roots: config.inputs.clone(), record, with_libm, plain })
    }

    /// Whether all that was looked at is as it was.
    pub(crate) fn still_holds(&self, config: &CpuConfig, files: &dyn FileDigests) -> bool {
        let is_steady = self.record.probed.unkept.is_some()
            || self.record.probed.inputs.unchanged(&|path| files.digest(path)) == Unchanged::Yes;
        is_steady
            && Cc::find(config).is_ok_and(|cc| cc == self.cc)
            && declared(config, files)
                .is_ok_and(|declared| parts(declared, self.record.probed.is_wrapped) == self.declared)
    }

    /// For people: `gcc version 12.2.0 (Debian 12.2.0-14), x86_64-linux-gnu`.
    pub(crate) fn summary(&self) -> String {
        let Record { version, triple, .. } = &self.record;
        format!("{version}, {triple} ({})", self.cc.driver.display())
    }

    /// For people: how reads are kept to what the key covers.
    pub(crate) fn confinement(&self) -> String {
        let Probed { means, why, inputs, .. } = &self.record.probed;
        let files = inputs.files().count();
        let why = why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!(
            "compiles are {means}{why}: keys cover {files}; if one of {} other paths that the compiler looks up \
             changes, it is probed again",
            inputs.looked_at(),
            files = counted(files, "file")
        )
    }

    /// Launchers that were named and are left out.
    pub(crate) fn left_out(&self) -> &[PathBuf] {
        &self.cc.left_out
    }

    pub(crate) fn driver(&self) -> &Path {
        &self.cc.driver
    }

    /// All arguments but input, output and libraries.
    pub(crate) fn args(&self) -> impl Iterator<Item = &str> {
        self.cc.leading.iter().chain(&self.record.flags).map(String::as_str)
    }

    pub(crate) fn means(&self) -> Means {
        self.record.probed.means
    }

    /// Whether a script or another program runs the compiler.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.record.probed.is_wrapped
    }

    /// The files that a compile may read: those in the kernel's key. Only with libm are those of the mathematical library
    /// among them.
    pub(crate) fn inputs(&self, calls_libm: bool) -> &Inputs {
        if calls_libm { &self.with_libm } else { &self.plain }
    }

    /// The paths that a compile with a wrapper looked at and that the kernel's key does not cover.
    pub(crate) fn looks_beyond<'o>(&self, calls_libm: bool, seen: &'o Observation) -> BTreeSet<&'o Path> {
        let Probed { plain, libm, .. } = &self.record.probed;
        let libm = if calls_libm { libm.looks.as_ref() } else { None };
        let known: Vec<&Looks> = plain.looks.iter().chain(libm).collect();
        looks::beyond(&known, seen, &self.declared_roots)
    }

    /// Whether `output` is what the compiler writes even where all is well.
    pub(crate) fn always_says(&self, output: &str) -> bool {
        output.is_empty() || output == self.record.probed.says
    }

    /// Adds the parts that all kernels share.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let Record { version, triple, flags, probed, .. } = &self.record;
        let Probed { inputs, plain, unkept, .. } = probed;
        let mut fingerprint = Fingerprint::new();
        fingerprint.text("version", version);
        fingerprint.text("triple", triple);
        for Read { name, path } in &plain.read {
            if let Some(digest) = inputs.digest(path) {
                fingerprint.add(name, digest, note_of_file(path, &digest));
            }
        }
        for (name, digest) in &self.declared {
            fingerprint.add(format!("input {name}"), *digest, format!("{:.12}", digest.to_string()));
        }
        fingerprint.text(FLAGS, flags.join(" "));
        if self.record.probed.is_wrapped {
            // A wrapper may go by the name that it is called by.
            fingerprint.text(CALLED_AS, words::name_of(&self.cc.driver));
        }
        if !self.cc.leading.is_empty() {
            fingerprint.text("arguments", self.cc.words_that_count());
        }
        fingerprint.text(STEPS, &plain.resolved);
        let order = (ORDER, Some(plain.order));
        for (name, digest) in [
            order,
            (INTERMEDIATE, plain.intermediate),
            (LOOKED_UP, plain.looks.as_ref().map(Looks::digest)),
            (OBJECT, plain.object),
        ] {
            if let Some(digest) = digest {
                fingerprint.add(name, digest, format!("{:.12}", digest.to_string()));
            }
        }
        fingerprint.text("launch ABI", LAUNCH_ABI.to_string());
        if let Some(why) = unkept {
            // Another each time: no look-up finds a kernel of such a toolchain, and it is not kept.
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            fingerprint.text("what cannot be known", format!("{why} ({}-{next})", std::process::id()));
        }
        fingerprint
    }

    /// Returns the digest of what kernels with calls of the mathematical library share, and the note of its part.
    pub(crate) fn libm(&self) -> (Digest, String) {
        let Probed { inputs, plain, libm, .. } = &self.record.probed;
        let mut hasher = Hasher::new("opkeep cpu libm 1");
        let only_libm = || libm.read.iter().filter(|file| !plain.read.contains(file));
        hasher.list(only_libm().count());
        for Read { name, path } in only_libm() {
            hasher.str(name);
            hasher.option(inputs.digest(path).is_some());
            if let Some(digest) = inputs.digest(path) {
                hasher.digest(&digest);
            }
        }
        hasher.str(&libm.resolved);
        hasher.digest(&libm.order);
        for digest in [libm.intermediate, libm.looks.as_ref().map(Looks::digest), libm.object] {
            hasher.option(digest.is_some());
            if let Some(digest) = digest {
                hasher.digest(&digest);
            }
        }
        let files = only_libm().map(|Read { path, .. }| (path.as_path(), inputs.digest(path)));
        (hasher.finish(), part_names::note_of_libm(files))
    }
}

fn probe(config: &CpuConfig, cx: &Context<'_>, cc: &Cc, dry_run: DriverInfo) -> Result<Record, BackendError> {
    let probed = Probe { config, cx, cc, dry_run: &dry_run }.run()?;
    let shown = shown(&dry_run);
    let DriverInfo { version, triple, flags, steps: _ } = dry_run;
    Ok(Record { version, triple, flags, shown, probed })
}

/// The digest of a dry run without paths: names of temporary files differ each time.
fn shown(dry_run: &DriverInfo) -> Digest {
    let mut hasher = Hasher::new("opkeep cpu dry run 1");
    hasher.str(&dry_run.version);
    hasher.str(&dry_run.triple);
    for step in dry_run.steps.lines().filter_map(words::command_of) {
        let words = words::that_count(&step);
        hasher.list(words.len());
        words.iter().for_each(|word| hasher.str(word));
    }
    hasher.finish()
}

/// The question that a remembered probe answers: all that a compiler's steps depend on beside files.
fn question(config: &CpuConfig, cc: &Cc) -> Digest {
    let CpuConfig {
        compiler: _,
        path,
        features,
        scratch: _,
        probe_deadline: _,
        inputs,
        expressions: _,
        rewrite: _,
    } = config;
    let mut hasher = Hasher::new("opkeep cpu probe");
    hasher.u64(RECORD);
    hasher.str(env!("CARGO_PKG_VERSION"));
    hasher.bytes(path.as_encoded_bytes());
    hasher.bytes(cc.driver.as_os_str().as_encoded_bytes());
    hasher.list(cc.leading.len());
    cc.leading.iter().for_each(|word| hasher.str(word));
    hasher.list(inputs.len());
    inputs.iter().for_each(|path| hasher.bytes(path.as_os_str().as_encoded_bytes()));
    hasher.bool(*features == Features::Native);
    // A directory for temporary files may be another machine's, too.
    let system = rustix::system::uname();
    for text in [system.nodename(), system.release(), system.machine()] {
        hasher.bytes(text.to_bytes());
    }
    hasher.bytes(processor().as_bytes());
    hasher.finish()
}

/// The kind of this processor: the system's text about the first one, without values that change by themselves.
fn processor() -> String {
    // The system makes up the text as it is read; more would be of further processors.
    const ENOUGH: u64 = 4096;
    const CHANGING: [&str; 2] = ["cpu MHz", "bogomips"];
    let mut text = Vec::new();
    let opened = Fs::new().open(Path::new("/proc/cpuinfo"));
    if opened.and_then(|file| file.take(ENOUGH).read_to_end(&mut text)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines = first.lines().filter(|line| !CHANGING.iter().any(|word| line.starts_with(word)));
    lines.collect::<Vec<_>>().join("\n")
}

fn declared(config: &CpuConfig, files: &dyn FileDigests) -> Result<Vec<Declared>, BackendError> {
    Inputs::declared(&config.inputs, &|path| files.digest(path))
        .map_err(|(root, error)| undeclarable(&root, error))
}

/// The declared inputs, by names that do not contain their directory. A wrapper may depend on permissions.
fn parts(declared: Vec<Declared>, is_wrapped: bool) -> Vec<(String, Digest)> {
    let part = |Declared { name, digest, permissions, .. }: Declared| {
        let mut hasher = Hasher::new("opkeep cpu declared with its permissions");
        hasher.digest(&digest);
        hasher.str(&permissions);
        (name, if is_wrapped { hasher.finish() } else { digest })
    };
    declared.into_iter().map(part).collect()
}

fn undeclarable(path: &Path, error: InputsError) -> BackendError {
    BackendError::Toolchain {
        problem: format!(
            "`{}`, which is declared as an input of the toolchain, cannot be read: {error}",
            path.display()
        ),
        help: "name files, or directories of files, that are there".to_owned(),
        tool: None,
    }
}
