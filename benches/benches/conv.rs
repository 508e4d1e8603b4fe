//! Question: how fast are convolutions and matrix products, compared with the loops of their definitions?
//!
//! The loops are compiled by the same compiler with the same flags, and run by the same loader: a stand-in compiler
//! replaces the generated C by them. Elements per second are floating-point operations per second.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opkeep_backend::{Backend, Buffer, CompileRequest, LoadedKernel};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_benches::{directory, search_path, write_program};
use opkeep_descriptor::{BuildSpec, Job, KernelName, KeyParts, ResolvedSpec};
use opkeep_digest::Fingerprint;
use opkeep_ops::{Graph, bool_attr, int_attr, ints_attr, str_attr};
use opkeep_testkit::TestContext;

/// An operator: its job, the loops of its definition, and the number of their multiplications and additions.
struct Operator {
    name: &'static str,
    job: Job,
    loops: String,
    steps: i64,
}

/// A convolution of one image with equal dimensions, padded so that stride 1 keeps the size.
fn conv(
    name: &'static str,
    [groups, inputs, outputs]: [i64; 3],
    [size, kernel, stride]: [i64; 3],
) -> Operator {
    let pad = kernel / 2;
    let (per_group, output) = (inputs / groups, (size + 2 * pad - kernel) / stride + 1);
    let mut graph = Graph::new(name);
    let x = graph.input("x", "float32", [1, inputs, size, size]);
    let filter = graph.input("filter", "float32", [outputs, per_group, kernel, kernel]);
    let attrs = [
        ints_attr("strides", &[1, 1, stride, stride]),
        ints_attr("pads", &[pad; 4]),
        int_attr("groups", groups),
        str_attr("data_format", "NCHW"),
    ];
    graph.node("conv", "Conv2D", &[x, filter], attrs).unwrap();
    let per_out = outputs / groups;
    let loops = format!(
        "for (long o = 0; o < {outputs}; o++)
            for (long oy = 0; oy < {output}; oy++)
                for (long ox = 0; ox < {output}; ox++) {{
                    float sum = 0;
                    for (long c = 0; c < {per_group}; c++)
                        for (long ky = 0; ky < {kernel}; ky++)
                            for (long kx = 0; kx < {kernel}; kx++) {{
                                const long iy = oy * {stride} + ky - {pad}, ix = ox * {stride} + kx - {pad};
                                if (iy >= 0 && iy < {size} && ix >= 0 && ix < {size})
                                    sum += a[((o / {per_out} * {per_group} + c) * {size} + iy) * {size} + ix]
                                         * b[((o * {per_group} + c) * {kernel} + ky) * {kernel} + kx];
                            }}
                    y[(o * {output} + oy) * {output} + ox] = sum;
                }}"
    );
    let steps = outputs * output * output * per_group * kernel * kernel;
    Operator { name, job: graph.jobs().remove(0).1, loops, steps }
}

/// A matrix product; the second matrix is stored transposed if `turned`.
fn matmul(name: &'static str, [m, k, n]: [i64; 3], turned: bool) -> Operator {
    let mut graph = Graph::new(name);
    let x1 = graph.input("x1", "float32", [m, k]);
    let x2 = graph.input("x2", "float32", if turned { [n, k] } else { [k, n] });
    graph.node("matmul", "MatMulV2", &[x1, x2], [bool_attr("transpose_x2", turned)]).unwrap();
    let right = if turned { format!("j * {k} + p") } else { format!("p * {n} + j") };
    let loops = format!(
        "for (long i = 0; i < {m}; i++)
            for (long j = 0; j < {n}; j++) {{
                float sum = 0;
                for (long p = 0; p < {k}; p++)
                    sum += a[i * {k} + p] * b[{right}];
                y[i * {n} + j] = sum;
            }}"
    );
    Operator { name, job: graph.jobs().remove(0).1, loops, steps: m * k * n }
}

fn operators() -> [Operator; 7] {
    [
        conv("3x3, 64 to 64 channels, 56x56", [1, 64, 64], [56, 3, 1]),
        conv("1x1, 256 to 64 channels, 56x56", [1, 256, 64], [56, 1, 1]),
        conv("1x1, 512 to 2048 channels, 7x7", [1, 512, 2048], [7, 1, 1]),
        conv("7x7 stem, stride 2, 3 to 64 channels, 224x224", [1, 3, 64], [224, 7, 2]),
        conv("depthwise 3x3, 144 channels, 56x56", [144, 144, 144], [56, 3, 1]),
        matmul("matrices of 512x512", [512, 512, 512], false),
        matmul("fully connected, 2048 to 1000", [1, 2048, 1000], true),
    ]
}

/// Compiles with `backend` and loads.
fn kernel(backend: &CpuBackend, job: &Job) -> Box<dyn LoadedKernel> {
    let spec = backend.resolve(&TestContext::new().cx(), &BuildSpec::new("cpu")).unwrap();
    let parts = KeyParts::new("cpu", job, &ResolvedSpec::default(), Fingerprint::new(), Fingerprint::new());
    let (name, work) = (KernelName::new(job, &parts.key()), directory().unwrap());
    let request = CompileRequest { job, spec: &spec, name: &name, work_dir: work.path() };
    let artifact = backend.compile(&TestContext::new().cx(), &request).unwrap();
    backend.loader().unwrap().load(&artifact, job).unwrap()
}

/// The loops as a kernel whose first block does everything.
fn naive(directory: &Path, operator: &Operator) -> Box<dyn LoadedKernel> {
    let Operator { loops, job, .. } = operator;
    let c = format!(
        "__attribute__((visibility(\"default\")))
void SYMBOL(const void *const *inputs, void *const *outputs, void *workspace, unsigned long block)
{{
    const float *a = inputs[0], *b = inputs[1];
    float *y = outputs[0];
    (void)workspace;
    if (block == 0)
        {loops}
}}
"
    );
    // If it is to compile a kernel, it compiles the loops under the kernel's name; other calls are passed on. It has the loops
    // itself, since a compiler may read nothing that its key does not cover.
    let script = format!(
        r#"#!/bin/sh
[ -f kernel.c ] || exec cc "$@"
symbol=$(sed -n 's/^void \([a-z0-9_A-Z]*\)(const void.*/\1/p' kernel.c)
cat >kernel.c <<'END'
{c}
END
exec cc -DSYMBOL="$symbol" "$@"
"#
    );
    let compiler = directory.join("stand-in");
    write_program(&compiler, &script).unwrap();
    let compiler = Some(compiler.display().to_string());
    kernel(&CpuBackend::new(CpuConfig::new(search_path()).with_compiler(compiler)), job)
}

fn rows(c: &mut Criterion) {
    let directory = directory().unwrap();
    let backend = CpuBackend::new(CpuConfig::new(search_path()));
    for operator in operators() {
        let mut group = c.benchmark_group(operator.name);
        group.throughput(Throughput::Elements(2 * operator.steps.unsigned_abs()));
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1));
        let (loops, ours) = (naive(directory.path(), &operator), kernel(&backend, &operator.job));
        for (name, kernel, threads) in
            [("loops, 1 thread", &loops, 1), ("kernel, 1 thread", &ours, 1), ("kernel, 2 threads", &ours, 2)]
        {
            let inputs: Vec<Buffer> = kernel.inputs().iter().map(|slot| noise(slot.bytes / 4)).collect();
            let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
            let mut output = Buffer::zeroed(kernel.outputs()[0].bytes);
            let threads = NonZeroUsize::new(threads).unwrap();
            group.bench_function(name, |b| {
                b.iter(|| kernel.launch(&inputs, &mut [output.bytes_mut()], threads).unwrap());
            });
        }
        group.finish();
    }
}

/// Numbers of both signs, without denormals, which would be slow.
fn noise(count: usize) -> Buffer {
    let number = |at: usize| (at as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32 - 0.5;
    Buffer::of_f32(&(0..count).map(number).collect::<Vec<_>>())
}

criterion_group!(benches, rows);
criterion_main!(benches);
