//! A node, and the descriptor that a framework writes of the same operator, are one job: it is compiled once.

use opkeep_descriptor::read_info;

use super::model::unary;

/// MindSpore's example, of which a relu would differ in these words only.
const SQUARE: &str = include_str!("../../../../../fixtures/mindspore/square_12484080525657478220_2.info");

#[test]
fn a_node_and_the_frameworks_descriptor_are_one_job() {
    let job = unary(14, "Relu", &[3], &[]).network().graph.jobs().remove(0).1;
    let relu = SQUARE.replace("Square", "Relu").replace("square", "relu");
    let digest = |text: &str| read_info(text.as_bytes()).unwrap().job.digest();
    // The fusion pattern of an operator that is not fused is the framework's own note.
    for pattern in ["Opaque", "ElemWise", "CommReduce"] {
        let noted = relu.replace("\"pattern\": \"Opaque\"", &format!("\"pattern\": \"{pattern}\""));
        assert!(noted.contains(pattern));
        assert_eq!(digest(&noted), job.digest(), "{pattern}");
    }
    assert_ne!(digest(SQUARE), job.digest());
    assert_ne!(digest(&relu.replace("float32", "float16")), job.digest());
}
