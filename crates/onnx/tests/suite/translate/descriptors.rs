//! A node, and a framework's descriptor of the same operator, are one job: it is compiled once.

use opkeep_descriptor::read_info;

use super::model::unary;

/// MindSpore's example; that of a relu would differ only in these names.
const SQUARE: &str = include_str!("../../../../../fixtures/mindspore/square_12484080525657478220_2.info");

#[test]
fn a_node_and_the_frameworks_descriptor_are_one_job() {
    let job = unary(14, "Relu", &[3], &[]).network().graph.jobs().remove(0).1;
    let relu = SQUARE.replace("Square", "Relu").replace("square", "relu");
    let digest = |text: &str| read_info(text.as_bytes()).unwrap().job.digest();
    // The fusion pattern of an operator that is not fused has no meaning here.
    for pattern in ["Opaque", "ElemWise", "CommReduce"] {
        let noted = relu.replace("\"pattern\": \"Opaque\"", &format!("\"pattern\": \"{pattern}\""));
        assert!(noted.contains(pattern));
        assert_eq!(digest(&noted), job.digest(), "{pattern}");
    }
    assert_ne!(digest(SQUARE), job.digest());
    assert_ne!(digest(&relu.replace("float32", "float16")), job.digest());
}
