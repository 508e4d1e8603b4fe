//! Helpers of the tests: backends, jobs, one compile, one launch, stand-in compilers.
#![allow(dead_code, reason = "each file of tests uses a part of this")]
#![allow(clippy::disallowed_methods, reason = "tests read and write files, and are told the environment")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers fail the test that calls them"
)]

use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use opkeep_artifact::Artifact;
use opkeep_backend::{Backend, BackendError, Buffer, CompileRequest, LoadedKernel};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_descriptor::{
    Arg, Attr, AttrValue, BuildSpec, Data, Extra, Float, Input, Job, KernelName, KeyParts, Op, OpFlags,
    ResolvedSpec, Source, Tensor,
};
use opkeep_digest::Fingerprint;
use opkeep_fs::CancelToken;
use opkeep_ops::{OpSpec, Rule};
use opkeep_testkit::TestContext;

/// The `PATH` of the tests.
pub(crate) fn path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

/// A program's file, if `PATH` has it.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&path()).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Runs the test called `test` again in a process of its own, where no other test affects its measurements. True in that
/// process.
pub(crate) fn runs_alone(test: &str) -> bool {
    const ALONE: &str = "OPKEEP_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && output.contains("1 passed"), "{output}");
    false
}

/// An available compiler: the path of `cc`, `gcc` or `clang`.
pub(crate) fn real_compiler() -> PathBuf {
    ["cc", "gcc", "clang"].into_iter().find_map(program).expect("the tests need a C compiler")
}

/// A backend whose compiler is `compiler`, or the usual one.
pub(crate) fn backend_with(compiler: Option<&str>) -> CpuBackend {
    CpuBackend::new(CpuConfig::new(path()).with_compiler(compiler.map(str::to_owned)))
}

/// The usual backend, one for all tests of a file.
pub(crate) fn backend() -> &'static CpuBackend {
    static BACKEND: OnceLock<CpuBackend> = OnceLock::new();
    BACKEND.get_or_init(|| backend_with(None))
}

/// A backend for whose compiler warnings are errors.
pub(crate) fn strict_with(compiler: &str) -> CpuBackend {
    backend_with(Some(&format!("{compiler} -Werror -Wno-unused-command-line-argument")))
}

/// Such a backend for every available compiler.
pub(crate) fn strict() -> &'static [CpuBackend] {
    static BACKENDS: OnceLock<Vec<CpuBackend>> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        let there = ["gcc", "clang"].into_iter().filter(|name| program(name).is_some());
        let backends: Vec<CpuBackend> = there.map(strict_with).collect();
        if backends.is_empty() { vec![strict_with(&real_compiler().to_string_lossy())] } else { backends }
    })
}

/// The spec of a build without options.
pub(crate) fn spec(backend: &CpuBackend) -> ResolvedSpec {
    backend.resolve(&TestContext::new().cx(), &BuildSpec::new("cpu")).unwrap()
}

/// A float attribute.
pub(crate) fn float(name: &str, value: f64) -> Attr {
    attr(name, "float32", AttrValue::Float(Float::new(value)))
}

/// An attribute.
pub(crate) fn attr(name: &str, dtype: &str, value: AttrValue) -> Attr {
    Attr { name: name.to_owned(), dtype: dtype.to_owned(), value, valid: None, extra: Extra::new() }
}

/// A job of one operator on float32 tensors of these shapes, rank 0 included.
pub(crate) fn job(op_type: &str, shapes: &[&[i64]], attrs: &[Attr]) -> Job {
    let tensors: Vec<Tensor> = shapes.iter().map(|shape| Tensor::new("float32", *shape)).collect();
    let inputs = tensors.iter().map(|tensor| vec![tensor]).collect();
    let call = opkeep_ops::Call::new(opkeep_ops::find(op_type).unwrap(), inputs, attrs).unwrap();
    let outputs = call.infer().unwrap().into_iter().flatten();
    let func_name = opkeep_ops::func_name(op_type);
    let input = |(data, tensor): (usize, &Tensor)| {
        Arg::One(Input { tensor: tensor.clone(), source: Source::Data { data, tensor: 0 } })
    };
    let op = Op {
        op_type: op_type.to_owned(),
        module_name: format!("impl.{func_name}"),
        func_name,
        module_path: None,
        flags: OpFlags::default(),
        inputs: tensors.iter().enumerate().map(input).collect(),
        outputs: outputs.map(|made| Arg::One(Tensor::new(made.dtype, made.shape))).collect(),
        attrs: (!attrs.is_empty()).then(|| attrs.to_vec()),
        extra: Extra::new(),
    };
    let data = |tensor: &Tensor| Data { outputs: vec![Arg::One(tensor.clone())], extra: Extra::new() };
    Job { data: tensors.iter().map(data).collect(), ops: vec![op], l1_size: -1, extra: Extra::new() }
}

/// The operators that are one expression of one or two floats.
pub(crate) fn on_floats() -> impl Iterator<Item = &'static OpSpec> {
    let elementwise = |spec: &&OpSpec| matches!(spec.rule, Rule::Elementwise | Rule::Predicate);
    let truth = |spec: &&OpSpec| spec.op_type.starts_with("Logical");
    opkeep_ops::all().iter().filter(elementwise).filter(move |spec| !truth(spec))
}

/// The name of a job's kernel.
pub(crate) fn name(job: &Job) -> KernelName {
    let (toolchain, sources) = (Fingerprint::new(), Fingerprint::new());
    KernelName::new(job, &KeyParts::new("cpu", job, &ResolvedSpec::default(), toolchain, sources).key())
}

/// Compiles in `work_dir`.
pub(crate) fn compile_in(
    backend: &CpuBackend,
    job: &Job,
    work_dir: &Path,
    deadline: Option<Instant>,
    cancel: &CancelToken,
) -> Result<Artifact, BackendError> {
    let (spec, name) = (spec(backend), name(job));
    let caller = TestContext::cancelled_by(cancel).with_deadline(deadline);
    backend.compile(&caller.cx(), &CompileRequest { job, spec: &spec, name: &name, work_dir })
}

/// Compiles in a directory of its own.
pub(crate) fn compile(backend: &CpuBackend, job: &Job) -> Result<Artifact, BackendError> {
    let dir = tempfile::tempdir().unwrap();
    compile_in(backend, job, dir.path(), None, &CancelToken::new())
}

/// Compiles and loads.
pub(crate) fn kernel(backend: &CpuBackend, job: &Job) -> Box<dyn LoadedKernel> {
    let artifact = compile(backend, job).unwrap_or_else(|error| panic!("{error}"));
    backend.loader().unwrap().load(&artifact, job).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a kernel with one output on these inputs, and returns the output's bytes.
pub(crate) fn launch(kernel: &dyn LoadedKernel, inputs: &[&[f32]], threads: usize) -> Vec<u8> {
    let inputs: Vec<Buffer> = inputs.iter().map(|values| Buffer::of_f32(values)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    let mut output = Buffer::zeroed(kernel.outputs()[0].bytes);
    // Bytes that a kernel does not write must not look like a result.
    output.bytes_mut().fill(0xa5);
    kernel.launch(&inputs, &mut [output.bytes_mut()], NonZeroUsize::new(threads).unwrap()).unwrap();
    output.bytes().to_vec()
}

/// Runs a kernel on these inputs, which are bytes of any element types, and returns the bytes of all outputs.
pub(crate) fn launch_bytes(kernel: &dyn LoadedKernel, inputs: &[Vec<u8>], threads: usize) -> Vec<Vec<u8>> {
    let placed = |bytes: &Vec<u8>| {
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    };
    let inputs: Vec<Buffer> = inputs.iter().map(placed).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    let mut outputs: Vec<Buffer> =
        kernel.outputs().iter().map(|slot| placed(&vec![0xa5; slot.bytes])).collect();
    let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(Buffer::bytes_mut).collect();
    kernel.launch(&inputs, &mut views, NonZeroUsize::new(threads).unwrap()).unwrap();
    outputs.iter().map(|output| output.bytes().to_vec()).collect()
}

/// Runs `task` for every item, on all processors.
pub(crate) fn each<T: Sync>(items: &[T], task: impl Fn(&T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    task(item);
                }
            });
        }
    });
}

/// The libraries and the symbols that an object needs of others.
pub(crate) fn needs(object: &[u8]) -> Vec<String> {
    use object::read::elf::{Dyn, ElfFile64, FileHeader, SectionHeader, Sym};
    let file = ElfFile64::<object::Endianness>::parse(object).unwrap();
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, object).unwrap();
    let mut needed = Vec::new();
    let (dynamic, strings) = sections
        .iter()
        .find_map(|section| section.dynamic(endian, object).unwrap())
        .expect("a shared object has a dynamic section");
    let strings = sections.strings(endian, object, strings).unwrap();
    for entry in dynamic.iter().filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED) {
        let name = strings.get(entry.val(endian) as u32).unwrap();
        needed.push(String::from_utf8(name.to_vec()).unwrap());
    }
    let symbols = sections.symbols(endian, object, object::elf::SHT_DYNSYM).unwrap();
    for symbol in symbols.iter().skip(1).filter(|symbol| symbol.is_undefined(endian)) {
        needed.push(String::from_utf8(symbol.name(endian, symbols.strings()).unwrap().to_vec()).unwrap());
    }
    needed
}

/// Float32 elements.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_ne_bytes(*word)).collect()
}

/// Different finite numbers, the same each time.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 65_536.0 - 128.0
    };
    (0..count).map(|_| next()).collect()
}

/// Writes an executable script. Another process does it: a file that this process had open for writing while another
/// test starts a program could not be executed (`ETXTBSY`).
pub(crate) fn script(file: &Path, text: &str) {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

/// A stand-in compiler in `directory`: answers queries as the real one does, and runs `on_compile` to compile.
pub(crate) fn stand_in(dir: &Path, on_compile: &str) -> PathBuf {
    let file = dir.join("cc");
    let real = real_compiler();
    let real = real.display();
    script(
        &file,
        &format!(
            "#!/bin/sh\ncase \"$PWD\" in */probe-*)\n    \
             for each in sleep tr ls head yes cat; do $each --version > /dev/null; done; exec {real} \"$@\" ;;\nesac\n\
             for arg in \"$@\"; do\n    case \"$arg\" in\n        \
             -v | -'###' | -print-*) exec {real} \"$@\" ;;\n    esac\ndone\n{on_compile}\n"
        ),
    );
    file
}
