//! Convolutions, matrix products and poolings against references written from their definitions, by each compiler that
//! is there, on one thread and on several.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod case;
mod conv;
mod edges;
mod matmul;
mod pool;

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_backend_cpu::{CpuBackend, CpuConfig, Features};

/// Cases, one for each algorithm, whose bits must be equal for all vector instructions of a machine.
const MACHINE: [&str; 7] = [
    "conv::3x3",
    "conv::depthwise_5x5",
    "matmul::connected",
    "matmul::one_row",
    "matmul::turned_left",
    "pool::max",
    "pool::average_ceil_padding",
];

/// The backend with all instructions of this machine.
fn native() -> CpuBackend {
    CpuBackend::new(CpuConfig::new(crate::common::path()).with_features(Features::Native))
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = edges::trials();
    let cases: Vec<_> =
        [conv::cases(), matmul::cases(), pool::cases()].into_iter().flatten().map(Arc::new).collect();
    // Generated code must compile without a warning. (For its version, clang does not need `-Werror`.)
    for (compiler, strict) in [("gcc", "gcc -Werror"), ("clang", "clang -Werror -Qunused-arguments")] {
        let there = crate::common::program(compiler).is_some();
        let backend = Arc::new(crate::common::backend_with(Some(strict)));
        for case in &cases {
            let (backend, case) = (Arc::clone(&backend), Arc::clone(case));
            let trial = Trial::test(format!("{compiler}::{}", case.name), move || case.check(&backend));
            trials.push(trial.with_ignored_flag(!there));
        }
    }
    let (portable, native) = (Arc::new(crate::common::backend_with(None)), Arc::new(native()));
    for case in cases.iter().filter(|case| MACHINE.contains(&case.name.as_str())) {
        let (portable, native, case) = (Arc::clone(&portable), Arc::clone(&native), Arc::clone(case));
        let name = case.name.clone();
        let trial = move || match case.run(&portable)? == case.run(&native)? {
            true => Ok(()),
            false => Err("not the same bits".into()),
        };
        trials.push(Trial::test(format!("same_on_any_machine::{name}"), trial));
    }
    trials
}
