//! The example's backend passes the suite that every backend must pass.

#[path = "../../examples/custom_backend/entry.rs"]
mod entry;
#[path = "../../examples/custom_backend/tiny.rs"]
mod tiny;

use std::sync::Arc;

use libtest_mimic::Trial;
use opkeep_backend::Registry;
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::conformance::{Case, Subject};
use opkeep_testkit::{conformance, job};

pub(crate) fn trials() -> Vec<Trial> {
    let case = |name, op_type, expected: [f32; 3]| Case {
        name,
        job: job(op_type, &[&[3]]),
        inputs: vec![vec![1.0, 4.0, -9.0]],
        expected: expected.to_vec(),
    };
    let mut registry = Registry::new();
    registry.add(entry::entry());
    match registry.open("tiny") {
        Ok(backend) => conformance::trials(
            "",
            &Subject {
                backend: Arc::new(move || Arc::clone(&backend)),
                spec: BuildSpec::new("tiny"),
                warning_case: None,
                cases: vec![
                    case("square", "Square", [1.0, 16.0, 81.0]),
                    case("neg", "Neg", [-1.0, -4.0, 9.0]),
                ],
            },
        ),
        Err(error) => panic!("{error}"),
    }
}
