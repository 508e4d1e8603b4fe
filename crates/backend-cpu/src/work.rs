//! What the generators of dense operators share: how a kernel's work is split into blocks, which sizes it may have, and
//! the constants at the top of the C.

use opbuild_backend::{BackendError, Unsupported};
use opbuild_ops::{Call, OpsError, Window};

use crate::code::{Code, refused};

/// The most blocks of a launch, the vendor's bound for `blockDim`.
const MAX_BLOCKS: u64 = 65_535;
/// About how many steps (a multiplication and an addition, say) a block should make, so that starting it costs nothing
/// beside.
const GRAIN: u64 = 64 * 1024;
/// No number that describes a job may be greater. Products of any two numbers that can meet in one expression then fit
/// 64 bits, in this program and in the generated C.
const MAX_SIZE: u64 = 1 << 40;

/// How units of work become blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// All units.
    pub(crate) units: u64,
    /// Units that one block does, one after the other.
    pub(crate) per_block: u64,
    /// Blocks.
    pub(crate) blocks: u64,
}

impl Share {
    /// Shares out `units` units of `steps` steps each.
    pub(crate) fn new(units: u64, steps: u64) -> Self {
        let per_block = GRAIN.div_ceil(steps.max(1)).min(units).max(units.div_ceil(MAX_BLOCKS)).max(1);
        Self { units, per_block, blocks: units.div_ceil(per_block).max(1) }
    }

    /// The constants that [`units`] needs.
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

/// A kernel that has nothing to write.
pub(crate) fn nothing() -> Code {
    let body = "    (void)inputs;\n    (void)outputs;\n    (void)block;\n".to_owned();
    Code { before: String::new(), body, blocks: 1 }
}

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

/// What stands in the operator table's way, as a refusal.
pub(crate) fn invalid(error: OpsError) -> BackendError {
    Unsupported::from(error).into()
}

/// Refuses tensors that no memory can hold: the inputs of `call`, and its `output`.
pub(crate) fn check_sizes(call: &Call<'_>, output: &[i64]) -> Result<(), BackendError> {
    let shapes = call.inputs().iter().flatten().map(|tensor| tensor.shape.as_slice());
    for shape in shapes.chain([output]) {
        // A dimension of 0 must not hide what the others multiply to.
        let mut dims = shape.iter().map(|dim| u64::try_from(*dim).map(|dim| dim.max(1)));
        let elements = dims.try_fold(1_u64, |elements, dim| elements.checked_mul(dim.ok()?));
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
    fn every_unit_has_a_block_and_no_launch_is_too_large() {
        for units in [0, 1, 2, 65_535, 65_536, 1 << 40, MAX_SIZE * 3] {
            for steps in [0, 1, GRAIN - 1, GRAIN, GRAIN + 1, u64::MAX] {
                let share = Share::new(units, steps);
                assert!((1..=MAX_BLOCKS).contains(&share.blocks), "{share:?}");
                assert!(share.per_block * share.blocks >= units, "{share:?}");
                assert!(share.per_block * (share.blocks - 1) < units.max(1), "{share:?}");
            }
        }
        assert_eq!(Share::new(1000, GRAIN).blocks, 1000);
        assert_eq!(Share::new(1000, GRAIN / 10).blocks, 91);
    }
}
