//! Shared parts of the generators of dense operators: how a kernel's work is split into blocks, which sizes it may have, and
//! the constants at the top of the C.

use opkeep_backend::BackendError;
use opkeep_ops::{Call, Window};

use crate::codegen::code::{MAX_BLOCKS, refused};

/// About how many steps (a multiplication and an addition, say) a block should make, so that starting it costs nothing
/// beside.
const STEPS: u64 = 64 * 1024;
/// No number that describes a job may be greater. Products of any two numbers that can meet in one expression then fit
/// 64 bits, in this program and in the generated C.
const MAX_SIZE: u64 = 1 << 40;

/// How units of work become blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkSplit {
    /// All units.
    pub(crate) units: u64,
    /// Units that one block does, one after the other.
    pub(crate) per_block: u64,
    /// Blocks.
    pub(crate) blocks: u64,
}

impl WorkSplit {
    /// Shares out `units` units of `steps` steps each.
    pub(crate) fn new(units: u64, steps: u64) -> Self {
        let per_block = STEPS.div_ceil(steps.max(1)).min(units).max(units.div_ceil(MAX_BLOCKS)).max(1);
        Self { units, per_block, blocks: units.div_ceil(per_block).max(1) }
    }

    /// The constants that [`EACH_UNIT`] needs.
    pub(crate) fn constants(&self) -> [(&'static str, u64); 2] {
        [("UNITS", self.units), ("UNITS_PER_BLOCK", self.per_block)]
    }
}

/// The C that [`EACH_UNIT`] needs.
pub(crate) const LEAST: &str = include_str!("c/least.c");

/// The C for arithmetic on vectors.
pub(crate) const VECTORS: &str = include_str!("c/vectors.c");

/// The C for ranges of positions.
pub(crate) const RANGE: &str = include_str!("c/range.c");

/// The loop over a block's units; statements for one `unit` are to follow, and a closing brace.
pub(crate) const EACH_UNIT: &str = "    const long first_unit = (long)block * UNITS_PER_BLOCK;
    for (long unit = first_unit; unit < least(first_unit + UNITS_PER_BLOCK, UNITS); unit++) {
";

/// The constants of a kernel, as the C preprocessor takes them.
pub(crate) fn defines(constants: &[(&str, u64)]) -> String {
    constants.iter().map(|(name, value)| format!("#define {name} {value}l\n")).collect()
}

/// The start of a body: pointers to the kernel's arguments. `inputs` are names with their number, if they are given.
pub(crate) fn pointers(inputs: &[(&str, Option<usize>)]) -> String {
    let pointer = |(name, at): &(&str, Option<usize>)| {
        at.map(|at| format!("    const float *{name} = inputs[{at}];\n")).unwrap_or_default()
    };
    inputs.iter().map(pointer).chain(["    float *y = outputs[0];\n".to_owned()]).collect()
}

/// Refuses tensors that no memory can hold, `output` among them.
pub(crate) fn check(call: &Call<'_>, output: &[i64]) -> Result<(), BackendError> {
    let shapes = call.inputs().iter().flatten().map(|tensor| tensor.shape.as_slice());
    for shape in shapes.chain([output]) {
        // A dimension of 0 must not hide what the others multiply to.
        let mut dims = shape.iter().map(|dim| dim.unsigned_abs().max(1));
        let elements = dims.try_fold(1_u64, u64::checked_mul);
        if elements.is_none_or(|elements| elements > MAX_SIZE) {
            return Err(refused(call, format!("a tensor of {shape:?} is larger than any memory")));
        }
    }
    Ok(())
}

/// A window in its plainest form, where numbers that make no difference are 1; refuses those that are out of hand.
pub(crate) fn plain(call: &Call<'_>, window: &Window) -> Result<Window, BackendError> {
    let mut window = *window;
    if window.output <= 1 {
        window.stride = 1;
    }
    if window.kernel <= 1 {
        window.dilation = 1;
    }
    let Window { input, output, kernel, stride, dilation, before, after } = window;
    match [input, output, kernel, stride, dilation, before, after].iter().all(|size| *size <= MAX_SIZE) {
        true => Ok(window),
        false => Err(refused(call, format!("{window:?} is larger than any memory"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_all_memory_are_refused() {
        use opkeep_backend::Unsupported;
        use opkeep_descriptor::Tensor;
        let check_first = |shape: [i64; 2]| {
            let (x1, x2) = (Tensor::new("float32", shape), Tensor::new("float32", [3, 4]));
            let call = Call::new(
                opkeep_ops::find("MatMulV2").unwrap(),
                vec![vec![&x1], vec![&x2], vec![], vec![]],
                &[],
            );
            check(&call.unwrap(), &[2, 4])
        };
        assert!(check_first([2, 3]).is_ok());
        for shape in [[0, (1 << 40) + 1], [1 << 20, (1 << 20) + 1], [i64::MAX, i64::MAX]] {
            let Err(BackendError::Unsupported(Unsupported::Other { problem, .. })) = check_first(shape)
            else {
                panic!("{shape:?} was not refused");
            };
            assert!(problem.contains("larger than any memory"), "{problem}");
        }
    }

    #[test]
    fn every_unit_has_a_block_and_no_launch_is_too_large() {
        for units in [0, 1, 2, 65_535, 65_536, 1 << 40, MAX_SIZE * 3] {
            for steps in [0, 1, STEPS - 1, STEPS, STEPS + 1, u64::MAX] {
                let share = WorkSplit::new(units, steps);
                assert!((1..=MAX_BLOCKS).contains(&share.blocks), "{share:?}");
                assert!(share.per_block * share.blocks >= units, "{share:?}");
                assert!(share.per_block * (share.blocks - 1) < units.max(1), "{share:?}");
            }
        }
        assert_eq!(WorkSplit::new(1000, STEPS).blocks, 1000);
        assert_eq!(WorkSplit::new(1000, STEPS / 10).blocks, 91);
    }
}
