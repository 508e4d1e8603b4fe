use super::*;
use crate::elf::facts::Machine;

fn kernel(kernels: usize, found: &[&str]) -> String {
    let found = found.iter().map(|&name| name.to_owned()).collect();
    KernelProblem::Kernel { field: "kernelName", expected: "a".into(), kernels, found }.to_string()
}

#[test]
fn unnamed_kernels_are_counted() {
    let unlisted = |named, others, found: &[&str]| {
        let found = found.iter().map(|&name| name.to_owned()).collect();
        KernelProblem::Unlisted { named, others, found }.to_string()
    };
    assert_eq!(unlisted(1, 1, &["b"]), "the `.json` names 1 kernel; the object also defines 1 kernel: `b`");
    assert_eq!(
        unlisted(2, 3, &["b", "c"]),
        "the `.json` names 2 kernels; the object also defines 3 kernels: `b`, `c`, ..."
    );
}

#[test]
fn messages_have_value_and_place() {
    assert!(kernel(0, &[]).ends_with("; it defines no kernel"));
    assert!(kernel(1, &["b"]).ends_with("it defines 1 kernel: `b`"));
    assert!(kernel(6, &["b", "c"]).ends_with("it defines 6 kernels: `b`, `c`, ..."));

    let machine = ObjectProblem::Machine {
        target: "Ascend910B1".into(),
        expected: vec![Machine(0x1029)],
        found: Machine(62),
    };
    assert_eq!(
        machine.to_string(),
        "`e_machine` of the object: Ascend910B1 expects 0x1029 Ascend (EM_HIIPU), found 0x3e x86-64"
    );
    assert!(ObjectProblem::NotElf { found: vec![] }.to_string().ends_with("found an empty file"));
    assert!(ObjectProblem::NotElf { found: b"#!/b".to_vec() }.to_string().ends_with("found 23 21 2f 62"));
}
