//! The backends of both examples pass the suite that every backend must pass.

#[path = "../../examples/custom_backend/entry.rs"]
mod entry;
#[path = "../../examples/ptx_backend/ptx.rs"]
mod ptx;
#[path = "../../examples/custom_backend/tiny.rs"]
mod tiny;

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_backend::{Backend, Registry};
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::conformance::{Case, Subject};
use opkeep_testkit::{conformance, job};

pub(crate) fn trials() -> Vec<Trial> {
    let mut registry = Registry::new();
    registry.add(entry::entry());
    let tiny = match registry.open("tiny") {
        Ok(backend) => subject("tiny", move || Arc::clone(&backend)),
        Err(error) => panic!("{error}"),
    };
    let ptx = subject(ptx::TARGET, || Arc::new(ptx::Ptx { has_check: true }));
    conformance::trials_for(&[("tiny", tiny), ("ptx", ptx)], false)
}

fn subject(target: &str, backend: impl Fn() -> Arc<dyn Backend> + Send + Sync + 'static) -> Subject {
    let case = |name, op_type, expected: [f32; 3]| Case {
        name,
        job: job(op_type, &[&[3]]),
        inputs: vec![vec![1.0, 4.0, -9.0]],
        expected: expected.to_vec(),
    };
    Subject {
        backend: Arc::new(backend),
        spec: BuildSpec::new(target),
        warning_case: None,
        cases: vec![case("square", "Square", [1.0, 16.0, 81.0]), case("neg", "Neg", [-1.0, -4.0, 9.0])],
    }
}
