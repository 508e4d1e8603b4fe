//! A whole backend: three operators, as C that `cc` compiles.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use opkeep::{
    Arg, Artifact, Backend, BackendError, CheckId, CompileRequest, Context, Digest, ElfLayout, ElfRules,
    Expectations, Fingerprint, Format, Job, MetadataRules, ResolvedSpec, Support, Unsupported,
};
use rustix::process::{Pid, Signal, kill_process_group};

type Result<T, E = BackendError> = std::result::Result<T, E>;

const OPERATORS: [(&str, &str); 3] = [("Square", "x * x"), ("Neg", "-x"), ("Abs", "x < 0 ? -x : x")];
const MAGIC: &str = "RT_DEV_BINARY_MAGIC_ELF";
const COMMAND: &str = "exec cc -O2 -fPIC -c kernel.c -o kernel.o 2> compile.log";

/// The programs that take part. Their contents are part of each key.
pub(crate) struct Tiny(pub(crate) Vec<PathBuf>);

impl Backend for Tiny {
    fn name(&self) -> &'static str {
        "tiny"
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint> {
        let mut fingerprint = Fingerprint::new();
        for path in &self.0 {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            fingerprint.add(name, cx.files.digest(path).map_err(io_at(path))?, "by content");
        }
        fingerprint.text("command", COMMAND);
        Ok(fingerprint)
    }

    fn op_sources(&self, _: &Context<'_>, job: &Job, _: &ResolvedSpec) -> Result<Fingerprint> {
        let mut fingerprint = Fingerprint::new();
        fingerprint.text("C", source(job, "kernel")?);
        Ok(fingerprint)
    }

    fn supports(&self, job: &Job, _: &ResolvedSpec) -> Support {
        source(job, "kernel").map_or_else(Support::No, |_| Support::Yes)
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        // EM_AARCH64 and EM_X86_64.
        let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        let rules = ElfRules::new([machine], ElfLayout::SharedObject);
        let parameters = [("magics".to_owned(), MAGIC.to_owned())].into();
        let metadata = MetadataRules::Checked { check: CheckId::new("cann-kernel-json", 1), parameters };
        Expectations::new(spec.target.as_str(), Format::Elf(rules), metadata)
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact> {
        let (dir, symbol, began) = (request.work_dir, request.name.symbol(), Instant::now());
        fs::write(dir.join("kernel.c"), source(request.job, &symbol)?).map_err(io_at(dir))?;
        let ended = run(cx, dir).map_err(io_at(dir))?;
        if !ended.is_some_and(|status| status.success()) {
            let (command, seconds) = (COMMAND.to_owned(), began.elapsed().as_secs_f64());
            let log = dir.join("compile.log");
            let (log_tail, log) = (fs::read_to_string(&log).unwrap_or_default(), Some(log));
            return Err(match ended.map(|status| status.to_string()) {
                Some(status) => BackendError::Compile { command, status, log_tail, log },
                None if cx.cancel.is_cancelled() => BackendError::Cancelled,
                None => BackendError::TimedOut { command, seconds, log_tail, log },
            });
        }
        let object = fs::read(dir.join("kernel.o")).map_err(io_at(dir))?;
        // A description as CANN writes it: frameworks find a kernel by it, and launch the symbol that it names.
        let (name, sha256) = (request.name, Digest::of(&object));
        let metadata = format!(
            r#"{{"binFileName": "{name}", "binFileSuffix": ".o", "blockDim": 1, "kernelName": "{symbol}", "magic": "{MAGIC}", "sha256": "{sha256}"}}"#
        );
        Ok(Artifact { metadata: metadata.into_bytes(), object, extra: Vec::new() })
    }
}

/// Returns the C of `job`, or the reason why there is none.
fn source(job: &Job, symbol: &str) -> Result<String, Unsupported> {
    let (backend, ops) = ("tiny", job.ops.len());
    let [op] = &job.ops[..] else { return Err(Unsupported::Fused { backend, ops }) };
    let op_type = op.op_type.clone();
    let Some((_, y)) = OPERATORS.iter().find(|(known, _)| *known == op_type) else {
        return Err(Unsupported::Op { backend, op_type });
    };
    let output = op.outputs.iter().flat_map(Arg::iter).find(|output| output.dtype == "float32");
    let product = |n: i64, dim: &i64| n.checked_mul(*dim).filter(|n| *n >= 0);
    let Some(n) = output.and_then(|output| output.shape.iter().try_fold(1, product)) else {
        return Err(Unsupported::Other { backend, op_type, problem: "it is not static float32".into() });
    };
    let body = format!("for (long i = 0; i < {n}; i++) {{ float x = in[0][i]; out[0][i] = {y}; }}");
    Ok(format!("void {symbol}(const float *const *in, float *const *out)\n{{\n    {body}\n}}\n"))
}

/// Runs the compiler. Returns `None` if it was killed, with its child processes, because of the deadline or of a
/// cancellation. (To end with a killed parent, a compiler needs `PR_SET_PDEATHSIG`, too: see the CPU backend.)
fn run(cx: &Context<'_>, dir: &Path) -> io::Result<Option<ExitStatus>> {
    let mut shell = Command::new("sh");
    let mut child = shell.args(["-c", COMMAND]).current_dir(dir).process_group(0).spawn()?;
    let has_time = || cx.deadline.is_none_or(|end| Instant::now() < end);
    while has_time() && !cx.cancel.is_cancelled() {
        match child.try_wait()? {
            None => thread::sleep(Duration::from_millis(2)),
            ended => return Ok(ended),
        }
    }
    kill_process_group(Pid::from_child(&child), Signal::KILL)?;
    child.wait().map(|_| None)
}

fn io_at(path: &Path) -> impl Fn(io::Error) -> BackendError + '_ {
    move |source| BackendError::Io { action: "work with", path: path.to_owned(), source }
}
