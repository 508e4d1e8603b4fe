//! The metadata sections of Ascend's linker, one for each kernel: `.ascend.meta.<kernel>`.
//!
//! A section is a list of (u16 kind, u16 length, value), little-endian like the object. Kind 4 contains another list,
//! which is big-endian with lengths in units of 8 bytes. Sections have the type NOTE or PROGBITS but are not ELF notes.

use std::fmt;

use opkeep_text::counted;

/// The contents of a metadata section. The last item of a kind counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeviceMeta {
    /// Kind 1: the cores that the kernel runs on.
    pub kernel_type: Option<KernelType>,
    /// Kind 2: whether the cores synchronise with each other.
    pub cross_core_sync: Option<u32>,
    /// Kind 3: the number of cores of each kind in one block.
    pub task_ratio: Option<TaskRatio>,
    /// Kind 4: the arguments, in order.
    pub arguments: Vec<Argument>,
    /// Kind 13: whether results are deterministic.
    pub deterministic: Option<u32>,
    /// Kind 14: the tiling key.
    pub function_entry: Option<FunctionEntry>,
    /// Other kinds, known and unknown, at most [`MAX_OTHERS`].
    pub others: Vec<Tlv>,
}

/// The largest number of kept items of other kinds; compilers write a few.
pub const MAX_OTHERS: usize = 32;

/// The cores that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelType {
    /// 1: AI cores.
    AiCore,
    /// 2: cube cores.
    Aic,
    /// 3: vector cores.
    Aiv,
    /// 4: both, launched from the cube side.
    MixAicMain,
    /// 5: both, launched from the vector side.
    MixAivMain,
    /// 6: cube cores, in place of both.
    AicRollback,
    /// 7: vector cores, in place of both.
    AivRollback,
}

impl KernelType {
    const ALL: [Self; 7] = [
        Self::AiCore,
        Self::Aic,
        Self::Aiv,
        Self::MixAicMain,
        Self::MixAivMain,
        Self::AicRollback,
        Self::AivRollback,
    ];

    fn from_number(number: u64) -> Option<Self> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(at).copied()
    }

    /// The runtime's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AiCore => "AICORE",
            Self::Aic => "AIC",
            Self::Aiv => "AIV",
            Self::MixAicMain => "MIX_AIC_MAIN",
            Self::MixAivMain => "MIX_AIV_MAIN",
            Self::AicRollback => "AIC_ROLLBACK",
            Self::AivRollback => "AIV_ROLLBACK",
        }
    }
}

impl fmt::Display for KernelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of cube and vector cores in one block of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskRatio {
    /// Cube cores.
    pub cube: u16,
    /// Vector cores.
    pub vector: u16,
}

impl fmt::Display for TaskRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cube, self.vector)
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Argument {
    /// Its purpose: 2 input, 3 output, 4 workspace, 7 tiling, ...; see [`Argument::name`].
    pub kind: u16,
    /// The kind of pointer in genuine kernels: 1 direct, 3 through a list.
    pub pointing: u16,
    /// Its size in bytes, where stated; for tiling data the length.
    pub size: Option<u64>,
}

impl Argument {
    /// The name of its purpose.
    pub const fn name(self) -> &'static str {
        match self.kind {
            2 => "input",
            3 => "output",
            4 => "workspace",
            5 => "log",
            6 => "mc2 context",
            7 => "tiling",
            8 => "L1",
            9 => "L2",
            10 => "overflow",
            11 => "ffts",
            12 => "shape",
            _ => "other",
        }
    }
}

/// The tiling key of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FunctionEntry {
    /// 0 or 0x80.
    pub flag: u8,
    /// The key.
    pub tiling_key: u64,
}

/// An item without its own field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tlv {
    /// Its kind.
    pub kind: u16,
    /// The length of its value.
    pub bytes: u16,
    /// The value, if its length is that of a number.
    pub number: Option<u64>,
}

impl Tlv {
    /// The name of its kind in a kernel's section, if known.
    pub const fn name(self) -> Option<&'static str> {
        match self.kind {
            6 => Some("IS_TIK"),
            7 => Some("UB_SIZE"),
            8 => Some("SU_STACK"),
            9 => Some("SIMT_STACK"),
            10 => Some("SIMT_DVG_STACK"),
            11 => Some("EARLY_START"),
            12 => Some("AIV_TYPE_FLAG"),
            15 => Some("BLOCK_DIM"),
            16 => Some("PARAM_SUMMARY"),
            17 => Some("PARAM_INFO"),
            18 => Some("SCHED_MODE"),
            _ => None,
        }
    }
}

/// Decodes a kernel's section. An unreadable item ends the list, as in the runtime, and is returned as a problem.
pub(crate) fn kernel(bytes: &[u8]) -> (DeviceMeta, Option<String>) {
    let mut meta = DeviceMeta::default();
    let mut problem = None;
    for item in (Items { bytes, at: 0 }) {
        if let Err(message) = item.and_then(|(kind, value)| meta.add_item(kind, value)) {
            problem.get_or_insert(message);
        }
    }
    (meta, problem)
}

/// Decodes the section of the whole object, where kinds have other meanings.
pub(crate) fn binary(bytes: &[u8]) -> (DeviceMeta, Option<String>) {
    let mut meta = DeviceMeta::default();
    let mut problem = None;
    for item in (Items { bytes, at: 0 }) {
        match item {
            Ok((kind, value)) => meta.add_other(kind, value),
            Err(cut) => problem = Some(cut),
        }
    }
    (meta, problem)
}

impl DeviceMeta {
    fn add_item(&mut self, kind: u16, value: &[u8]) -> Result<(), String> {
        let wrong =
            |expected: &str| format!("kind {kind} has {}, expected {expected}", counted(value.len(), "byte"));
        match kind {
            1 => {
                let number = word(value).ok_or_else(|| wrong("4"))?;
                let known = KernelType::from_number(number.into());
                self.kernel_type =
                    Some(known.ok_or_else(|| format!("kernel type {number}, expected 1 to 7"))?);
            }
            2 => self.cross_core_sync = Some(word(value).ok_or_else(|| wrong("4"))?),
            3 => {
                let &[a, b, c, d] = value else { return Err(wrong("4")) };
                let (cube, vector) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                self.task_ratio = Some(TaskRatio { cube, vector });
            }
            4 => return self.add_arguments(value),
            13 => self.deterministic = Some(word(value).ok_or_else(|| wrong("4"))?),
            14 => {
                let (head, key) = value.split_last_chunk::<8>().ok_or_else(|| wrong("9 or more"))?;
                let flag = *head.first().ok_or_else(|| wrong("9 or more"))?;
                self.function_entry = Some(FunctionEntry { flag, tiling_key: u64::from_le_bytes(*key) });
            }
            _ => self.add_other(kind, value),
        }
        Ok(())
    }

    fn add_other(&mut self, kind: u16, value: &[u8]) {
        if self.others.len() < MAX_OTHERS {
            let bytes = u16::try_from(value.len()).unwrap_or(u16::MAX);
            self.others.push(Tlv { kind, bytes, number: number(value) });
        }
    }

    /// Decodes the inner list: big-endian, with lengths in units of 8 bytes.
    fn add_arguments(&mut self, mut rest: &[u8]) -> Result<(), String> {
        self.arguments.clear();
        while let Some((&[a, b, c, d], tail)) = rest.split_first_chunk::<4>() {
            let (kind, units) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let Some((value, tail)) = tail.split_at_checked(8 * usize::from(units)) else {
                return Err(format!("kind 4: item {kind} of {units} x 8 bytes is cut off"));
            };
            let mut words =
                value.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_be_bytes);
            if let (5, Some(first)) = (kind, words.next()) {
                // Both halves are limited to the available bytes; kinds are small numbers.
                let [.., a, b, c, d] = first.to_be_bytes();
                let (pointing, kind) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                let size = words.next().filter(|size| *size != u64::MAX);
                self.arguments.push(Argument { kind, pointing, size });
            }
            rest = tail;
        }
        Ok(())
    }
}

fn word(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_le_bytes)
}

fn number(value: &[u8]) -> Option<u64> {
    match *value {
        [a] => Some(a.into()),
        [a, b] => Some(u16::from_le_bytes([a, b]).into()),
        [..] => word(value).map(u64::from).or_else(|| value.try_into().ok().map(u64::from_le_bytes)),
    }
}

/// The outer list.
struct Items<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<(u16, &'a [u8]), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        let Some((&[a, b, c, d], tail)) = rest.split_first_chunk::<4>() else {
            self.at = self.bytes.len();
            // Zeros are padding.
            let cut = rest.iter().any(|byte| *byte != 0);
            return cut.then(|| Err(format!("left over: {}", counted(rest.len(), "byte"))));
        };
        let (kind, length) = (u16::from_le_bytes([a, b]), usize::from(u16::from_le_bytes([c, d])));
        let Some(value) = tail.get(..length) else {
            let at = std::mem::replace(&mut self.at, self.bytes.len());
            let left = tail.len();
            return Some(Err(format!(
                "kind {kind} at {at} has {length}, {left} are left",
                length = counted(length, "byte")
            )));
        };
        self.at += 4 + length;
        Some(Ok((kind, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = value.len() as u16;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), value].concat()
    }

    fn inner(kind: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = [kind.to_be_bytes(), (words.len() as u16).to_be_bytes()].concat();
        words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        bytes
    }

    #[test]
    fn a_mixed_kernel_is_decoded() {
        let arguments = [
            inner(5, &[0x1_000b]),
            inner(5, &[0x3_0002, u64::MAX, 2]),
            inner(99, &[1]),
            inner(5, &[0x1_0007, 0x128]),
            inner(5, &[]),
        ];
        let bytes = [
            // There is no padding.
            tlv(300, b"abc"),
            tlv(1, &[4, 0, 0, 0]),
            tlv(2, &[1, 0, 0, 0]),
            tlv(3, &[1, 0, 2, 0]),
            tlv(4, &arguments.concat()),
            tlv(13, &[1, 0, 0, 0]),
            tlv(14, &[0x80, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0xf0]),
            tlv(7, &[0, 0, 3, 0]),
        ];
        let (meta, problem) = kernel(&bytes.concat());
        assert_eq!(problem, None);
        let argument = |kind, pointing, size| Argument { kind, pointing, size };
        let expected = DeviceMeta {
            kernel_type: Some(KernelType::MixAicMain),
            cross_core_sync: Some(1),
            task_ratio: Some(TaskRatio { cube: 1, vector: 2 }),
            arguments: vec![argument(11, 1, None), argument(2, 3, None), argument(7, 1, Some(0x128))],
            deterministic: Some(1),
            function_entry: Some(FunctionEntry { flag: 0x80, tiling_key: 0xf000_0000_0000_0009 }),
            others: vec![
                Tlv { kind: 300, bytes: 3, number: None },
                Tlv { kind: 7, bytes: 4, number: Some(0x3_0000) },
            ],
        };
        assert_eq!(meta, expected);
        assert_eq!((meta.arguments[0].name(), meta.others[1].name()), ("ffts", Some("UB_SIZE")));
    }

    #[test]
    fn an_unreadable_item_ends_the_list_and_is_reported() {
        let good = tlv(1, &[3, 0, 0, 0]);
        for (tail, message) in [
            (&[2, 0, 5, 0, 1, 0, 0, 0][..], "kind 2 at 8 has 5 bytes, 4 are left"),
            (&[9], "left over: 1 byte"),
            (&tlv(1, &[8, 0, 0, 0]), "kernel type 8, expected 1 to 7"),
            (&tlv(1, &[1, 0]), "kind 1 has 2 bytes, expected 4"),
            (&tlv(3, &[1]), "kind 3 has 1 byte, expected 4"),
            (&tlv(14, &[0; 8]), "kind 14 has 8 bytes, expected 9 or more"),
            (&tlv(4, &[0, 5, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]), "kind 4: item 5 of 2 x 8 bytes is cut off"),
        ] {
            let (meta, problem) = kernel(&[&good, tail].concat());
            assert_eq!((meta.kernel_type, problem.as_deref()), (Some(KernelType::Aiv), Some(message)));
        }
        let (meta, problem) = kernel(&[&good[..], &[0, 0, 0]].concat());
        assert_eq!((meta.kernel_type, problem), (Some(KernelType::Aiv), None));
    }

    #[test]
    fn the_object_as_a_whole_has_other_kinds() {
        let (meta, problem) = binary(&[tlv(0, &[1, 0, 0, 0]), tlv(4, &[2, 0, 0, 0])].concat());
        assert_eq!(problem, None);
        assert_eq!(
            meta.others.iter().map(|item| (item.kind, item.number)).collect::<Vec<_>>(),
            [(0, Some(1)), (4, Some(2))]
        );
        assert_eq!((meta.kernel_type, meta.arguments.len()), (None, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let (meta, _) = kernel(&tlv(300, &[]).repeat(100_000));
        assert_eq!(meta.others.len(), MAX_OTHERS);
    }

    /// Values of genuine kernels truncated at any byte: no panic, and earlier items are kept.
    #[test]
    fn every_truncation_is_read() {
        let bytes =
            [tlv(1, &[5, 0, 0, 0]), tlv(3, &[0, 0, 1, 0]), tlv(4, &inner(5, &[0x1_0007, 0x38]))].concat();
        for end in 0..bytes.len() {
            let (meta, problem) = kernel(&bytes[..end]);
            assert_eq!(meta.kernel_type.is_some(), end >= 8, "{end}");
            assert_eq!(problem.is_none(), [0, 8, 16].contains(&end), "{end}: {problem:?}");
        }
    }
}
