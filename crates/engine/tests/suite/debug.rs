//! Debug options: the selected operators are compiled for debugging, all others use the cache.

use std::sync::Arc;

use crate::common::{Bench, outcomes, request};
use opkeep::{DebugConfig, Request};
use opkeep_testkit::NullBackend;

/// Four operators, of which the first two are equal.
fn requests() -> Vec<Request> {
    let mut requests = vec![
        request("Square", &[3]),
        request("Square", &[3]),
        request("Square", &[4]),
        request("Relu", &[3]),
    ];
    for (request, name) in requests.iter_mut().zip(["net/a", "net/b", "net/c", "net/d"]) {
        request.descriptor.envelope.full_name = name.to_owned();
    }
    requests
}

/// The outcome of each operator in a second build, and the items of the list that match nothing.
fn second_build(config: &str) -> (Vec<&'static str>, Vec<String>, usize) {
    let (bench, backend) = (Bench::new(), Arc::new(NullBackend::default()));
    let mut debugged = requests();
    let unused = config.parse::<DebugConfig>().unwrap().set_on(&mut debugged);
    bench.engine(&backend).build(&requests()).unwrap();
    let entries = bench.entries().len();
    let report = bench.engine(&backend).build(&debugged).unwrap();
    assert_eq!(bench.entries().len(), entries, "what is debugged is not kept");
    let kernels = outcomes(&report);
    (report.kernel_of.iter().map(|kernel| kernels[*kernel]).collect(), unused, kernels.len())
}

#[test]
fn without_a_list_nothing_uses_the_store() {
    let (outcomes, unused, kernels) = second_build("op_debug_config=oom");
    assert_eq!((outcomes, kernels), (vec!["bypassed"; 4], 3));
    assert!(unused.is_empty());
}

#[test]
fn a_list_names_nodes_and_types_and_leaves_the_others_alone() {
    let (outcomes, unused, kernels) = second_build("op_debug_config=oom\nop_debug_list=net/b,OpType::Relu");
    // Of the two equal nodes only one is named, so they are two kernels.
    assert_eq!((outcomes, kernels), (vec!["reused", "bypassed", "reused", "bypassed"], 4));
    assert!(unused.is_empty());
    let (outcomes, unused, _) =
        second_build("op_debug_config=oom\nop_debug_list=net,Square,OpType::net/a,net/c");
    assert_eq!(outcomes, ["reused", "reused", "bypassed", "reused"]);
    assert_eq!(unused, ["OpType::net/a", "Square", "net"]);
}
