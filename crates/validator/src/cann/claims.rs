//! The statements of a `.json` about its kernels that an object can confirm.

use opkeep_cann_meta::{CoreType, Deterministic, Flag, KernelEntry, KernelMeta, Magic, TaskRation, Word};

use crate::cann::device::{KernelType, TaskRatio};

/// The kinds of core in a `.json`, in all spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// AI cores or cube cores: `AiCore` means either.
    AiCore,
    Cube,
    Vector,
    Mix,
}

impl Cores {
    /// The meaning of a `coreType` or `core_type`; `None` for an unknown word.
    pub(crate) fn of(word: &Word<CoreType>) -> Option<Self> {
        Some(match word.known()? {
            CoreType::AiCore => Self::AiCore,
            CoreType::CubeCore | CoreType::Aic => Self::Cube,
            CoreType::VectorCore | CoreType::Aiv => Self::Vector,
            mix if mix.is_mix() => Self::Mix,
            _ => return None,
        })
    }

    /// Whether a known compiler writes `self` in the `.json` and `found` in the metadata. For chips with one kind of
    /// core, the metadata states AI cores whatever the `.json` states.
    pub(crate) const fn allows(self, found: KernelType) -> bool {
        use KernelType::{AiCore, Aic, AicRollback, Aiv, AivRollback, MixAicMain, MixAivMain};
        matches!(
            (self, found),
            (_, AiCore)
                | (Self::Mix, MixAicMain | MixAivMain | AicRollback | AivRollback)
                | (Self::AiCore | Self::Cube, Aic | AicRollback)
                | (Self::Vector, Aiv | AivRollback)
        )
    }

    /// Whether both may describe one kernel.
    pub(crate) const fn is_compatible_with(self, other: Self) -> bool {
        // A mixed kernel runs on both kinds, and its sides are described separately.
        !matches!(
            (self, other),
            (Self::Vector, Self::AiCore | Self::Cube) | (Self::AiCore | Self::Cube, Self::Vector)
        )
    }
}

/// The statements about one kernel.
#[derive(Clone, Copy, Default)]
pub(crate) struct Claim<'a> {
    pub(crate) name: &'a str,
    /// The key of the object that holds it, in a fat binary.
    pub(crate) config_key: Option<u64>,
    pub(crate) tiling_key: Option<u64>,
    pub(crate) kernel_type: Option<&'a str>,
    pub(crate) task_ratio: Option<TaskRatio>,
    pub(crate) cross_core_sync: Option<Flag>,
    pub(crate) deterministic: Option<Deterministic>,
}

impl Claim<'_> {
    /// Whether the stated ratio has 0 cores of one side, and the kernel is of the other side. For such a kernel,
    /// compilers write `MIX_AIC` and such a ratio.
    pub(crate) const fn is_one_sided(&self, found: KernelType) -> bool {
        use KernelType::{Aic, AicRollback, Aiv, AivRollback};
        matches!(
            (self.task_ratio, found),
            (Some(TaskRatio { cube: 0, .. }), Aiv | AivRollback)
                | (Some(TaskRatio { vector: 0, .. }), Aic | AicRollback)
        )
    }
}

/// The kernels of the `.json`: those in `kernelList`, or `kernelName` if nothing is listed.
pub(crate) fn claims(meta: &KernelMeta) -> Vec<Claim<'_>> {
    let shared = meta.task_ration.as_ref().and_then(ratio);
    let alone = |name| Claim {
        name,
        task_ratio: shared,
        deterministic: meta.deterministic.as_ref().and_then(Word::known),
        ..Claim::default()
    };
    match meta.listed() {
        Some(list) => list.iter().map(|entry| claim(entry, shared)).collect(),
        None => meta.kernel_name.as_deref().map(alone).into_iter().collect(),
    }
}

fn claim(entry: &KernelEntry, shared: Option<TaskRatio>) -> Claim<'_> {
    Claim {
        name: &entry.kernel_name,
        config_key: entry.config_key,
        tiling_key: entry.tiling_key,
        kernel_type: entry.kernel_type.as_deref(),
        task_ratio: entry.task_ration.as_ref().and_then(ratio).or(shared),
        cross_core_sync: entry.cross_core_sync,
        deterministic: entry.deterministic.as_ref().and_then(Word::known),
    }
}

fn ratio(ration: &TaskRation) -> Option<TaskRatio> {
    let &TaskRation::Ratio { cube, vector } = ration else { return None };
    Some(TaskRatio { cube: cube.try_into().ok()?, vector: vector.try_into().ok()? })
}

/// The magic, if known.
pub(crate) fn magic(meta: &KernelMeta) -> Option<Magic> {
    meta.magic.as_ref().and_then(Word::known)
}

/// Whether this is AKG's short form for CPU kernels: only names and digests.
pub(crate) fn is_short_form(meta: &KernelMeta) -> bool {
    meta.bin_file_name.is_none() && (meta.obj_sha256.is_some() || meta.thread_number.is_some())
}

/// The `.json` files of the parts, if `meta` is a master: a master describes no object itself.
///
/// Older compilers wrote mixed kernels in this form, one part for each side. The names are unchecked.
pub fn sub_kernel_files(meta: &KernelMeta) -> Option<Vec<&str>> {
    let list = meta.json_list.as_ref().filter(|list| !list.is_empty() && meta.bin_file_name.is_none())?;
    Some(list.iter().map(|part| part.json_file_name.as_str()).collect())
}

/// The tiling key in a kernel's name, if the name is the common name and a key.
pub(crate) fn tiling_key_in(name: &str, common: Option<&str>) -> Option<u64> {
    trailing_digits(name, common?)?.parse().ok()
}

/// The final digits of a kernel's name, if the name is the common name and digits.
pub(crate) fn trailing_digits<'a>(name: &'a str, common: &str) -> Option<&'a str> {
    let digits = name.strip_prefix(common)?.strip_prefix('_')?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

#[cfg(test)]
mod tests {
    use opkeep_cann_meta::Vocabulary;

    use super::*;

    #[test]
    fn every_word_means_cores() {
        for core in CoreType::ALL {
            let expected = match core.name() {
                "AiCore" => Cores::AiCore,
                "AIC" | "CubeCore" => Cores::Cube,
                "VectorCore" | "AIV" => Cores::Vector,
                _ => Cores::Mix,
            };
            assert_eq!(Cores::of(&Word::Known(*core)), Some(expected), "{core}");
        }
        assert_eq!(Cores::of(&Word::of("quantum")), None);
    }

    /// Combinations of genuine kernels, and impossible combinations.
    #[test]
    fn genuine_pairs_go_together() {
        use KernelType::{AiCore, Aic, Aiv, MixAicMain, MixAivMain};
        for (cores, found, allowed) in [
            (Cores::Vector, Aiv, true),
            (Cores::Vector, AiCore, true),
            (Cores::AiCore, AiCore, true),
            (Cores::AiCore, Aic, true),
            (Cores::Mix, MixAicMain, true),
            (Cores::Mix, MixAivMain, true),
            (Cores::Vector, Aic, false),
            (Cores::AiCore, Aiv, false),
            (Cores::AiCore, MixAicMain, false),
            (Cores::Cube, Aiv, false),
        ] {
            assert_eq!(cores.allows(found), allowed, "{cores:?} {found}");
        }
        assert!(
            Cores::Cube.is_compatible_with(Cores::AiCore) && Cores::Mix.is_compatible_with(Cores::Vector)
        );
        assert!(
            !Cores::Cube.is_compatible_with(Cores::Vector)
                && !Cores::Vector.is_compatible_with(Cores::AiCore)
        );
    }

    #[test]
    fn a_tiling_key_is_the_end_of_a_name() {
        let key = |name| tiling_key_in(name, Some("add_12"));
        assert_eq!(key("add_12_10000000000000000000"), Some(10_000_000_000_000_000_000));
        for name in ["add_12__kernel0", "add_12", "add_12_", "add_12_99999999999999999999", "sub_12_3"] {
            assert_eq!(key(name), None, "{name}");
        }
        // The digits of a hash are no key.
        assert_eq!((tiling_key_in("add_12", None), tiling_key_in("add_12", Some("add_12"))), (None, None));
        let of = |cube, vector| ratio(&TaskRation::Ratio { cube, vector });
        assert_eq!(of(1, 2), Some(TaskRatio { cube: 1, vector: 2 }));
        assert_eq!((of(1 << 16, 2), ratio(&TaskRation::TilingKey)), (None, None));
    }
}
