//! The codes of findings and their meanings. Documentation and output are generated from this table.

use std::fmt;

pub use opkeep_artifact::Severity;

/// A stable name for a kind of finding: `OPV005`. A code is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OPV{:03}", self.0)
    }
}

impl Code {
    /// The rule with this code.
    pub fn rule(self) -> &'static Rule {
        // A test checks that every constant of `Code` has a row, so the fallback is unreachable.
        RULES.binary_search_by_key(&self, |rule| rule.code).map_or(&RULES[0], |at| &RULES[at])
    }

    /// The index of the code's row in [`RULES`].
    pub(crate) fn index(self) -> usize {
        RULES.binary_search_by_key(&self, |rule| rule.code).unwrap_or_default()
    }
}

/// A row of the table: a code and its meaning.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The code.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// A general description.
    pub meaning: &'static str,
    /// Advice for the user.
    pub remedy: &'static str,
}

macro_rules! rules {
    ($($name:ident = $number:literal $severity:ident: $meaning:literal => $remedy:literal;)*) => {
        impl Code {
            $(#[doc = concat!("Number ", stringify!($number), ": ", $meaning, ".")]
            pub const $name: Self = Self($number);)*
        }

        /// Every code, in order.
        pub const RULES: &[Rule] = &[
            $(Rule {
                code: Code::$name,
                severity: Severity::$severity,
                meaning: $meaning,
                remedy: $remedy,
            },)*
        ];
    };
}

rules! {
    JSON = 1 Error: "the `.json` is not JSON, or is truncated"
        => "build the kernel again, or copy it again from its source";
    FIELD = 2 Error: "a field of the `.json` has a type or value that no producer writes"
        => "build the kernel again; if the finding remains, report it to the compiler's vendor";
    MISSING = 3 Error: "the `.json` lacks a field that every kernel of this target has"
        => "check that this `.json` describes a kernel, and that the target is the right one";
    UNSAFE_NAME = 4 Error: "a name in the `.json` leaves its directory, or is hidden in it"
        => "use this kernel only if you trust its source";
    SHA256 = 5 Error: "the object is not the one that the `.json` describes"
        => "one of the two was changed or truncated, or they are of different builds: build the kernel again";
    MAGIC = 6 Error: "the target's loader does not take this `magic`"
        => "use the kernel on the chip it was built for, or build it for this one";
    NO_MAGIC = 7 Note: "the `.json` has no `magic`: AKG writes none for CPU kernels"
        => "no harm";
    MAGIC_MISFIT = 8 Warning: "`magic` and the kind of core do not match as CANN writes them"
        => "check that the `.json` was not edited; the runtime may launch the kernel on the wrong cores";
    CORE_TYPES = 9 Warning: "`coreType` and `core_type` name different cores"
        => "check that the `.json` was not edited; frameworks read one or the other";
    BIN_NAME = 10 Note: "the kernels are not named after `binFileName`"
        => "no harm if the file was renamed on purpose, like the deterministic variant of a kernel";
    FILE_NAME = 11 Note: "the name of the file differs from `binFileName`"
        => "no harm if the file was renamed on purpose; MindSpore uses the file's name, CANN `binFileName`";
    NO_OBJECT = 12 Error: "the object of the `.json` is missing"
        => "restore the object, or build the kernel again";
    NO_JSON = 13 Note: "the `.json` of the object is missing, so only the object was checked"
        => "restore the `.json`: without it no framework finds the kernel";
    PART = 14 Error: "a part that a `jsonList` names is missing"
        => "restore the part's `.json`, or build the kernel again";
    REPEATED = 15 Warning: "a field of the `.json` occurs more than once"
        => "check that the `.json` was not edited; readers differ in which value they take";
    IGNORED_VALUE = 16 Warning: "a field of the `.json` has a value without meaning, and was ignored"
        => "check the compiler's version; readers differ in how they interpret it";
    LISTED_TWICE = 17 Warning: "the `kernelList` names a kernel more than once"
        => "check that the `.json` was not edited; readers differ in which of the entries they take";
    BASE_NAME = 18 Warning: "`kernelName` is not the beginning of the names in the `kernelList`"
        => "check that the `.json` was not edited; CANN reads `kernelName` as well as the list, and loads no kernel without it from its cache";
    UNKNOWN_CORE = 19 Warning: "no compiler writes this kind of core"
        => "check that the `.json` was not edited; CANN ignores an unknown `coreType`, and refuses an unknown `core_type`";
    NOT_ELF = 20 Error: "the object is no ELF file"
        => "build the kernel again; placeholder files of test trees often are text";
    CLASS = 21 Error: "the object is an ELF file, but not of 64 bits"
        => "build the kernel with the target's compiler";
    ENDIANNESS = 22 Error: "the object is an ELF file, but not little-endian"
        => "build the kernel with the target's compiler";
    MACHINE = 23 Error: "the object is for another machine"
        => "use the kernel on the machine it was built for, or build it for this one";
    TYPE = 24 Error: "the object is a kind of ELF file that the target cannot load"
        => "check what was compiled: a core dump or a program is no kernel";
    UNUSUAL_TYPE = 25 Warning: "no compiler for this target is known to write this kind of ELF file"
        => "check that the object came from the target's compiler";
    MALFORMED = 26 Error: "the object is truncated or malformed"
        => "build the kernel again; if the finding remains, report it to the compiler's vendor";
    NO_SECTIONS = 27 Error: "the object has no section headers, by which kernels are found"
        => "build the kernel again, and do not strip it";
    NO_FUNCTION = 28 Error: "the object has no function symbol; the Ascend runtime refuses it (EE1014)"
        => "build the kernel again, and do not strip it";
    LINK = 29 Warning: "a section refers to a section that does not exist"
        => "build the kernel again; some versions of the Ascend runtime refuse it";
    ENTRY_SIZE = 30 Error: "the section headers do not have the size of ELF64's"
        => "build the kernel again; the runtime refuses it";
    CHIP = 31 Error: "the object is for chips of another family"
        => "use the kernel on the chip it was built for, or build it for this one";
    UNKNOWN_CHIP = 32 Note: "the chips of the object cannot be compared with the target, since the target's name or its objects are unknown"
        => "check the name of the chip; if it is right, compare `e_flags` with those of kernels that run on it";
    TEXT_PLACE = 40 Warning: "the first loaded section is not `.text` at address 0, by which the runtime finds kernels"
        => "check that the object was linked by the target's linker; the runtime would jump to the wrong address";
    GAP = 41 Warning: "the distance of loaded sections differs between file and memory"
        => "check that the object was linked by the target's linker; the runtime copies them as one block of the file";
    LOADED_NOBITS = 42 Warning: "a section that is to be loaded has no bytes in the file"
        => "check that the object was linked by the target's linker; the runtime allocates no memory for it";
    UNDEFINED = 43 Warning: "a symbol is not defined"
        => "link its definition into the object; the Ascend runtime does not link";
    DYNAMIC = 44 Warning: "the object has a section for dynamic loading"
        => "check that the object was linked by the target's linker; the Ascend runtime is no dynamic loader";
    KERNEL_RANGE = 45 Error: "a kernel that the `.json` names does not lie within its section"
        => "build the kernel again; if the finding remains, report it to the compiler's vendor";
    KERNEL_ALIGN = 46 Warning: "a kernel does not begin at a multiple of 4 bytes, as instructions do"
        => "check that the object was linked by the target's linker";
    KERNEL_SECTION = 47 Warning: "a kernel is not in `.text`"
        => "check that the object was linked by the target's linker; the runtime counts from the beginning of `.text`";
    SAME_NAME = 48 Warning: "two different kernels have one name"
        => "build the kernel again; the runtime may launch either";
    OTHER_RANGE = 49 Warning: "a kernel that the `.json` does not name does not lie within its section"
        => "check that the object was linked by the target's linker";
    KERNEL = 50 Error: "the object does not define a kernel that the `.json` names"
        => "the two are of different builds, or one was edited: build the kernel again";
    NO_KERNEL = 51 Warning: "the object defines no kernel: no function that is global and visible"
        => "check what was compiled: nothing in it can be launched by name";
    UNLISTED = 52 Note: "the object defines kernels that the `.json` does not name"
        => "no harm: they cannot be launched through this `.json`";
    BY_KEY = 53 Warning: "the `.json` lists no kernels, and the object has them by tiling key"
        => "check that the `.json` was not edited; a launch must append the tiling key to the kernel's name";
    CONTAINER = 54 Note: "the object is a host library that holds the kernel, which was not checked"
        => "no harm: CANN calls its function `GetKernelBin` to get the kernel";
    NOT_VISIBLE = 55 Warning: "a part defines what the `.json` names, but not as a visible function"
        => "check that it was compiled to be linked; the linker would not find the kernel";
    LACKS_FIELD = 56 Warning: "the `.json` lacks a field that the compilers for this chip always write"
        => "check that the `.json` was not edited; frameworks use a default or uninitialised memory";
    MAY_LACK_FIELD = 57 Note: "the `.json` lacks a field that the compilers for this chip write for most kernels"
        => "no harm if the kernel does not need it";
    SYMBOL = 58 Error: "a symbol of a kernel has another type, size or section than the target's loader needs"
        => "build the kernel again; if the finding remains, report it to the compiler's vendor";
    METADATA = 60 Warning: "a metadata section is truncated or has unknown contents"
        => "check the compiler's version; the runtime ignores unreadable items and uses defaults";
    STRAY_METADATA = 61 Warning: "a metadata section is for a kernel that the object does not define"
        => "check that no symbols were renamed; the runtime uses defaults for the kernels";
    NO_METADATA = 62 Note: "some kernels have metadata, and others in the same object have none"
        => "no harm: the runtime uses defaults";
    STACK_RECORD = 63 Note: "the runtime does not accept the record of stack sizes"
        => "no harm: the runtime uses its default";
    ARGUMENT_RECORD = 64 Note: "the record of argument sizes does not have one number for each kernel"
        => "no harm: only tools read it";
    KERNEL_TYPE = 70 Warning: "the metadata and the `.json` name different kinds of core"
        => "check that the two are of one build; frameworks use the `.json`, the runtime the metadata";
    TASK_RATIO = 71 Warning: "the metadata and the `.json` name different ratios of cube to vector cores"
        => "check that the two are of one build";
    TILING_KEY = 72 Warning: "a tiling key differs between the `.json`, the kernel's name and the metadata"
        => "check that the two are of one build; a launch by tiling key would select another kernel";
    CROSS_CORE_SYNC = 73 Warning: "the metadata and the `.json` differ on synchronisation between cores"
        => "check that the two are of one build; a kernel launched without it may hang";
    DETERMINISTIC = 74 Note: "the metadata and the `.json` differ on deterministic computing"
        => "no harm unless results must be deterministic";
    ARCHITECTURE = 75 Warning: "`e_flags` and the `.json` name different cores"
        => "check that the `.json` was not edited; the runtime may launch the kernel on the wrong cores";
    DISAGREE = 80 Error: "two ELF parsers read the object differently"
        => "do not use the object; the loader may read it differently again";
    SECOND_PARSER = 81 Warning: "the second ELF parser cannot read the object, so nothing was cross-checked"
        => "no harm if the reason is names that are no text or very many sections, which that parser does not support";
    OPAQUE_START = 82 Error: "the object does not begin like objects of the target"
        => "build the kernel again, or copy it again from its source";
    TOO_LONG = 83 Error: "the object exceeds the target's size limit"
        => "build the kernel again; the file may have trailing data";
    FLAGS = 84 Error: "the target does not load objects with these `e_flags`"
        => "use the kernel on the device it was built for, or build it for this one";
    CHECK_REFUSES = 85 Error: "a check of the backend rejects the kernel"
        => "build the kernel again; if the finding remains, report it to the backend's authors";
    CHECK_WARNS = 86 Warning: "a check of the backend has a warning for the kernel"
        => "read the check's message";
    CHECK_NOTE = 87 Note: "a check of the backend has a note for the kernel"
        => "no harm";
    UNVERIFIED = 88 Note: "a check of the backend is not available, so the validation is incomplete"
        => "no harm; a program with the backend can complete the validation";
    FE_REFUSES = 90 Warning: "CANN's graph engine would refuse the `.json`"
        => "build the kernel with the CANN version that will use it";
    FE_LINT = 91 Note: "CANN's graph engine would ignore or misread a part of the `.json`"
        => "no harm unless the field matters to you";
    MINDSPORE_LINT = 92 Note: "MindSpore 2.0 would ignore or misread a part of the `.json`"
        => "no harm unless the kernel is for MindSpore";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_in_order_and_found() {
        assert!(RULES.is_sorted_by(|a, b| a.code < b.code));
        assert!(RULES.iter().all(|rule| rule.code.rule() == rule));
        assert_eq!(Code::SHA256.to_string(), "OPV005");
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
    }
}
