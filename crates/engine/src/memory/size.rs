//! How much memory a request takes that is remembered, about.

use std::hash::{Hash, Hasher};

use opkeep_descriptor::{Arg, BuildSpec, Data, Input, Job, Op, Tensor};

/// What an option, or a field that we do not know, costs beside its text: its place in a map.
const PLACE: usize = 64;

/// The bytes of a job and a spec: of their structures, and of all the text and all the numbers in them.
pub(crate) fn of(job: &Job, spec: &BuildSpec) -> usize {
    let mut content = FileContent::default();
    (job, spec).hash(&mut content);
    let given = job.data.iter().flat_map(|data| &data.outputs).flat_map(Arg::iter).count();
    let taken = job.ops.iter().flat_map(|op| &op.inputs).flat_map(Arg::iter).count();
    let made = job.ops.iter().flat_map(|op| &op.outputs).flat_map(Arg::iter).count();
    content.0
        + job.data.len() * size_of::<Data>()
        + job.ops.len() * size_of::<Op>()
        + (given + made) * size_of::<Arg<Tensor>>()
        + taken * size_of::<Arg<Input>>()
        + (spec.options.len() + job.ops.iter().flat_map(|op| op.attrs.iter().flatten()).count()) * PLACE
}

/// Counts the bytes that are hashed.
#[derive(Default)]
struct FileContent(usize);

impl Hasher for FileContent {
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
