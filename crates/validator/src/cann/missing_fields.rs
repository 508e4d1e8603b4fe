//! Fields that the compilers for a chip always write, so that readers of the `.json` rely on them.

use opkeep_cann_meta::KernelMeta;

use crate::code::Code;
use crate::elf::facts::ElfFacts;
use crate::findings::Findings;
use crate::problem::DescriptionProblem;

/// The metadata's name for a workspace argument.
const WORKSPACE: &str = "workspace";

/// Reports fields that the `.json` of a kernel for AI cores lacks. Compilers for the first generation wrote no kinds of
/// core and rarely a workspace.
pub(crate) fn judge(meta: &KernelMeta, facts: &[ElfFacts], findings: &mut Findings) {
    let mut missing = |field, reader, always| {
        let code = if always { Code::LACKS_FIELD } else { Code::MAY_LACK_FIELD };
        findings.add(code, || DescriptionProblem::LacksField { field, reader, always });
    };
    if meta.block_dim.is_none() {
        let reader = "CANN launches it on 1 core, MindSpore on an undefined number of cores";
        missing("blockDim", reader, true);
    }
    let family = facts.iter().find_map(|facts| facts.family).filter(|family| !family.is_first_generation());
    let Some(family) = family else { return };
    if meta.core_type.is_none() {
        let reader = "CANN takes the core from `core_type`, or registers the kernel without one";
        missing("coreType", reader, family.is_split() && meta.old_core_type.is_none());
    }
    let takes_workspace = meta.workspace.is_none() && takes_workspace(facts);
    // Kernels for one shape usually need no tiling data.
    if meta.workspace.is_none() && (takes_workspace || meta.listed().is_some()) {
        missing("workspace", "frameworks allocate none", takes_workspace);
    }
}

/// Whether a kernel's metadata lists a workspace argument.
fn takes_workspace(facts: &[ElfFacts]) -> bool {
    let metas = facts.iter().flat_map(|facts| &facts.kernels).filter_map(|kernel| kernel.meta.as_ref());
    metas.flat_map(|meta| &meta.arguments).any(|argument| argument.name() == WORKSPACE)
}
