//! One compile: C and object in the work folder, then the artifact.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use opbuild_artifact::{Artifact, BlockDim, Flag, KernelMeta, Magic, Parameter};
use opbuild_backend::{BackendError, CompileRequest};
use opbuild_descriptor::{Arg, EffectiveSpec};
use opbuild_digest::Digest;
use opbuild_process::Run;

use crate::expression::calls_libm;
use crate::generate::Generated;
use crate::toolchain::Toolchain;
use crate::{CpuConfig, disk};

/// Our own field of the `.json`: the digest of the job that the kernel computes, for the loader.
pub(crate) const JOB_FIELD: &str = "opbuildJob";

/// Compiles generated C.
pub(crate) fn compile(
    config: &CpuConfig,
    toolchain: &Toolchain,
    source: &Generated,
    request: &CompileRequest<'_>,
) -> Result<Artifact, BackendError> {
    let CompileRequest { job, spec, name, work_dir, deadline, cancel } = request;
    disk::write(&work_dir.join("kernel.c"), source.text.as_bytes())?;
    // Relative names: the work folder's path must not find its way into the object.
    let mut args = toolchain.leading.clone();
    args.extend(toolchain.flags.iter().cloned());
    for_debugging(&mut args, spec);
    args.extend(["-o", "kernel.o", "kernel.c"].map(str::to_owned));
    if calls_libm(&source.text) {
        args.push("-lm".to_owned());
    }
    let log = work_dir.join("compile.log");
    let args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    let environment = environment(&config.path, work_dir);
    let run = Run {
        program: &toolchain.driver,
        args: &args,
        environment: &environment,
        dir: work_dir,
        log: Some(&log),
        deadline: *deadline,
        cancel,
    };
    let ended = run.to_end()?;
    if !ended.status.success() {
        return Err(run.failed(&ended));
    }
    let object = disk::read_made(&work_dir.join("kernel.o"))
        .map_err(|error| run.lied(&ended, format!("its object `kernel.o` cannot be read: {error}")))?;
    let outputs = job.ops.iter().flat_map(|op| &op.outputs);
    let arguments = job.data.iter().flat_map(|data| &data.outputs).chain(outputs).flat_map(Arg::iter).count();
    let meta = KernelMeta {
        bin_file_name: Some(name.to_string()),
        bin_file_suffix: Some(".o".to_owned()),
        block_dim: Some(BlockDim::Fixed(source.blocks)),
        kernel_name: Some(name.symbol()),
        magic: Some(Magic::Elf.into()),
        sha256: Some(Digest::of(&object).to_string()),
        op_para_size: Some(0),
        parameters: Some(vec![Parameter::Int(0); arguments]),
        batch_bind_only: Some(Flag::Number(1)),
        build_result: Some(String::new()),
        extra: BTreeMap::from([(JOB_FIELD.to_owned(), job.digest().to_string().into())]),
        ..KernelMeta::default()
    };
    Ok(Artifact { json: meta.to_json().into_bytes(), object, extra: Vec::new() })
}

/// All of the compiler's environment when it runs in `dir`: what else is set must not change what it does.
pub(crate) fn environment<'a>(path: &'a OsStr, dir: &'a Path) -> [(&'a OsStr, &'a OsStr); 3] {
    let named = |name, value| (OsStr::new(name), value);
    [named("PATH", path), named("TMPDIR", dir.as_os_str()), named("LC_ALL", OsStr::new("C"))]
}

/// What the debug options make of the flags: level 2 is "not optimised, with symbols", as in the vendor's compiler.
fn for_debugging(args: &mut Vec<String>, spec: &EffectiveSpec) {
    let option = |name: &str| spec.options.get(name).map(String::as_str).unwrap_or_default();
    let word = |word: &str| option("op_debug_config").split(',').any(|found| found == word);
    let level_2 = option("op_debug_level") == "2";
    if level_2 || word("ccec_O0") {
        args.push("-O0".to_owned());
    }
    if level_2 || word("ccec_g") {
        args.retain(|flag| flag != "-s");
        args.push("-g".to_owned());
    }
}
