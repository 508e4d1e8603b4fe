//! An estimate of the memory that a remembered request takes.

use std::hash::{Hash, Hasher};

use opkeep_descriptor::{Arg, BuildSpec, Data, Input, Job, Op, Tensor};

/// The number of bytes that an option or an attribute takes in addition to its text, for its place in a map.
const PLACE: usize = 64;

/// Returns the number of bytes of a job and a spec: of their structures, and of all texts and numbers in them.
pub(crate) fn of(job: &Job, spec: &BuildSpec) -> usize {
    let mut content = ByteCount::default();
    (job, spec).hash(&mut content);
    let data_outputs = job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter).count();
    let inputs = job.ops.iter().flat_map(|op| &op.inputs).flat_map(Arg::iter).count();
    let outputs = job.ops.iter().flat_map(|op| &op.outputs).flat_map(Arg::iter).count();
    content.0
        + job.data.len() * size_of::<Data>()
        + job.ops.len() * size_of::<Op>()
        + (data_outputs + outputs) * size_of::<Arg<Tensor>>()
        + inputs * size_of::<Arg<Input>>()
        + (spec.options.len() + job.ops.iter().flat_map(|op| op.attrs.iter().flatten()).count()) * PLACE
}

/// Counts the bytes that are hashed.
#[derive(Default)]
struct ByteCount(usize);

impl Hasher for ByteCount {
    fn write(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use opkeep_testkit::descriptor;

    use super::*;

    #[test]
    fn more_text_and_more_operators_are_more() {
        let of = |descriptor: &opkeep_descriptor::Descriptor| of(&descriptor.job, &descriptor.spec);
        let mut one = descriptor("node", "Square", &[&[3]]);
        let bytes = of(&one);
        assert!((1000..5000).contains(&bytes), "{bytes}");
        one.job.ops[0].module_path = Some("x".repeat(10_000));
        assert!(of(&one) >= bytes + 10_000);
        let op = one.job.ops[0].clone();
        one.job.ops.resize(10, op);
        assert!(of(&one) > bytes + 10 * 10_000);
    }
}
