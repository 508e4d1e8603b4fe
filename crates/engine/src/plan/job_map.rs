//! Jobs as keys of maps with many look-ups: hashed by some fields, compared by all.

use std::hash::{Hash, Hasher};

use opkeep_descriptor::{Arg, Job, Tensor};

/// A job that is hashed by the fields in which most jobs differ: operators, element types, shapes, values, attributes.
/// Hashing all fields would take longer than the rest of a look-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobMapKey<'a>(pub(crate) &'a Job);

impl Hash for JobMapKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.0.ops.len());
        for op in &self.0.ops {
            op.op_type.hash(state);
            op.inputs.iter().flat_map(Arg::iter).for_each(|input| hash(&input.tensor, state));
            op.outputs.iter().flat_map(Arg::iter).for_each(|output| hash(output, state));
            op.attrs.hash(state);
        }
    }
}

fn hash(tensor: &Tensor, state: &mut impl Hasher) {
    let Tensor { dtype, shape, const_value, .. } = tensor;
    dtype.hash(state);
    shape.hash(state);
    const_value.hash(state);
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use foldhash::fast::RandomState;
    use opkeep_testkit::job;

    use super::*;

    #[test]
    fn equal_jobs_have_one_hash_and_others_another() {
        let hasher = RandomState::default();
        let hash = |job: &Job| hasher.hash_one(JobMapKey(job));
        let one = job("Square", &[&[3]]);
        assert_eq!(hash(&one), hash(&one.clone()));
        for other in [job("Square", &[&[4]]), job("Abs", &[&[3]]), job("Add", &[&[3], &[3]])] {
            assert_ne!(hash(&one), hash(&other));
        }
        // A field that is not hashed is compared.
        let mut alike = one.clone();
        alike.ops[0].module_path = Some("elsewhere".to_owned());
        assert_eq!(hash(&one), hash(&alike));
        assert!(JobMapKey(&one) != JobMapKey(&alike));
    }
}
