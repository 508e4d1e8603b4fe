//! The codes of findings, and what each stands for. The only such table: documentation and output are made from it.

use std::fmt;

pub use opkeep_artifact::Severity;

/// A stable name for a kind of finding: `OPV005`. A code is never given to another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OPV{:03}", self.0)
    }
}

impl Code {
    /// What the code stands for.
    pub fn rule(self) -> &'static Rule {
        // Every constant of `Code` has a row, which a test holds; the fallback is never met.
        RULES.binary_search_by_key(&self, |rule| rule.code).map_or(&RULES[0], |at| &RULES[at])
    }

    /// The place of the code's row in [`RULES`].
    pub(crate) fn index(self) -> usize {
        RULES.binary_search_by_key(&self, |rule| rule.code).unwrap_or_default()
    }
}

/// A row of the table: a code, and what to make of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The code.
    pub code: Code,
    /// How much it weighs.
    pub severity: Severity,
    /// What was found, in general.
    pub meaning: &'static str,
    /// What to do about it.
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
    JSON = 1 Error: "the `.json` is not JSON, or is cut off"
        => "build the kernel again, or copy it again from where it came";
    FIELD = 2 Error: "a field of the `.json` has a type or value that no producer writes"
        => "build the kernel again; if it stays so, report it to the compiler's vendor";
    MISSING = 3 Error: "the `.json` lacks a field that every kernel of this target has"
        => "check that this `.json` describes a kernel, and that the target is the right one";
    UNSAFE_NAME = 4 Error: "a name in the `.json` would leave its folder, or hide in it"
        => "do not use this kernel unless you know who wrote it";
    SHA256 = 5 Error: "the object is not the one that the `.json` describes"
        => "one of the two was changed or cut off, or they are of different builds: build the kernel again";
    MAGIC = 6 Error: "the target's loader does not take this `magic`"
        => "use the kernel on the chip it was built for, or build it for this one";
    NO_MAGIC = 7 Note: "the `.json` has no `magic`: AKG writes none for CPU kernels"
        => "no harm";
    MAGIC_MISFIT = 8 Warning: "`magic` and the kind of core do not go together as CANN writes them"
        => "check that the `.json` was not edited; the runtime may launch the kernel on the wrong cores";
    CORE_TYPES = 9 Warning: "`coreType` and `core_type` name different cores"
        => "check that the `.json` was not edited; frameworks read one or the other";
    BIN_NAME = 10 Note: "the kernels are not called after `binFileName`"
        => "no harm, if the file was renamed on purpose, as twins for deterministic computing are";
    FILE_NAME = 11 Note: "the file is not called as `binFileName` says"
        => "no harm, if the file was renamed on purpose; MindSpore goes by the file, CANN by `binFileName`";
    NO_OBJECT = 12 Error: "there is no object beside the `.json`"
        => "put the object back beside it, or build the kernel again";
    ALONE = 13 Note: "there is no `.json` beside the object, so only the object was checked"
        => "put the `.json` back beside it: without it no framework finds the kernel";
    PART = 14 Error: "a part that a `jsonList` names is not there"
        => "put the part's `.json` back beside the master, or build the kernel again";
    REPEATED = 15 Warning: "a field of the `.json` occurs more than once"
        => "check that the `.json` was not edited; readers differ in which they take";
    ODD_VALUE = 16 Warning: "a field of the `.json` has a value that says nothing, and was passed over"
        => "check the compiler's version; readers differ in what they make of it";
    LISTED_TWICE = 17 Warning: "the `kernelList` names a kernel more than once"
        => "check that the `.json` was not edited; which of its entries is taken is the reader's choice";
    BASE_NAME = 18 Warning: "`kernelName` is not what the names in the `kernelList` begin with"
        => "check that the `.json` was not edited; CANN reads `kernelName` beside the list, and takes no kernel without it from its cache";
    UNKNOWN_CORE = 19 Warning: "the kind of core is none that a compiler writes"
        => "check that the `.json` was not edited; CANN ignores an unknown `coreType`, and refuses an unknown `core_type`";
    NOT_ELF = 20 Error: "the object is no ELF file"
        => "build the kernel again; placeholders and text files of test trees look like this";
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
    MALFORMED = 26 Error: "the object is cut off, or no correct tool wrote it"
        => "build the kernel again; if it stays so, report it to the compiler's vendor";
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
    UNKNOWN_CHIP = 32 Note: "for which chips the object is cannot be judged against the target, since its name or its objects are not known"
        => "check the name of the chip; if it is right, compare `e_flags` with those of kernels that run there";
    TEXT_PLACE = 40 Warning: "the first loaded section is not `.text` at address 0, by which the runtime finds kernels"
        => "check that the object was linked by the target's linker; the runtime would jump to the wrong place";
    GAP = 41 Warning: "loaded sections are not as far apart in the file as in memory"
        => "check that the object was linked by the target's linker; the runtime copies them as one piece of the file";
    LOADED_NOBITS = 42 Warning: "a section that is to be loaded has no bytes in the file"
        => "check that the object was linked by the target's linker; the runtime does not make memory for it";
    UNDEFINED = 43 Warning: "a symbol is not defined"
        => "link what defines it into the object; the Ascend runtime links nothing";
    DYNAMIC = 44 Warning: "the object has a section for a dynamic loader"
        => "check that the object was linked by the target's linker; the Ascend runtime is no dynamic loader";
    KERNEL_RANGE = 45 Error: "a kernel that the `.json` names does not lie within its section"
        => "build the kernel again; if it stays so, report it to the compiler's vendor";
    KERNEL_ALIGN = 46 Warning: "a kernel does not begin at a multiple of 4 bytes, as instructions do"
        => "check that the object was linked by the target's linker";
    KERNEL_SECTION = 47 Warning: "a kernel is not in `.text`"
        => "check that the object was linked by the target's linker; the runtime counts from the beginning of `.text`";
    CONTESTED = 48 Warning: "two different kernels have one name"
        => "build the kernel again; which of them is launched is the runtime's choice";
    OTHER_RANGE = 49 Warning: "a kernel that the `.json` does not name does not lie within its section"
        => "check that the object was linked by the target's linker";
    KERNEL = 50 Error: "the object does not define a kernel that the `.json` names"
        => "the two are of different builds, or one was edited: build the kernel again";
    NO_KERNEL = 51 Warning: "the object defines no kernel: no function that is global and visible"
        => "check what was compiled: nothing in it can be launched by name";
    UNLISTED = 52 Note: "the object defines kernels that the `.json` does not name"
        => "no harm: they cannot be launched through this `.json`";
    BY_KEY = 53 Warning: "the `.json` lists no kernels, and the object has them by tiling key"
        => "check that the `.json` was not edited; the kernel can be launched only by who adds the tiling key to its name";
    CONTAINER = 54 Note: "the object is a library for the host that holds the kernel, which was not checked"
        => "no harm: CANN calls `GetKernelBin` in it, to get the kernel";
    NOT_VISIBLE = 55 Warning: "a part defines what the `.json` names, but not as a visible function"
        => "check that it was compiled to be linked; the linker would not find the kernel";
    UNSAID = 56 Warning: "the `.json` lacks a field that the compilers for this chip always write"
        => "check that the `.json` was not edited; frameworks take a default for it, or what happens to be in memory";
    MAY_BE_UNSAID = 57 Note: "the `.json` lacks a field that the compilers for this chip write for most kernels"
        => "no harm, if the kernel has no use for it";
    METADATA = 60 Warning: "a metadata section is cut off or has an unknown content"
        => "check the compiler's version; the runtime ignores what it cannot read and takes defaults";
    STRAY_METADATA = 61 Warning: "a metadata section is for a kernel that the object does not define"
        => "check that no symbols were renamed; the runtime takes defaults for the kernels themselves";
    NO_METADATA = 62 Note: "some kernels have metadata, and others in the same object have none"
        => "no harm: the runtime takes defaults";
    STACK_RECORD = 63 Note: "the record of stack sizes is not one that the runtime takes"
        => "no harm: the runtime takes its default";
    ARGUMENT_RECORD = 64 Note: "the record of argument sizes does not have one number a kernel"
        => "no harm: it is for tools";
    KERNEL_TYPE = 70 Warning: "the metadata and the `.json` name different kinds of core"
        => "check that the two are of one build; frameworks go by the `.json`, the runtime by the metadata";
    TASK_RATIO = 71 Warning: "the metadata and the `.json` name different ratios of cube to vector cores"
        => "check that the two are of one build";
    TILING_KEY = 72 Warning: "a tiling key differs between the `.json`, the kernel's name and the metadata"
        => "check that the two are of one build; a launch by tiling key would take another kernel";
    CROSS_CORE_SYNC = 73 Warning: "the metadata and the `.json` differ on synchronisation between cores"
        => "check that the two are of one build; a kernel launched without it may hang";
    DETERMINISTIC = 74 Note: "the metadata and the `.json` differ on deterministic computing"
        => "no harm, unless results must repeat";
    ARCHITECTURE = 75 Warning: "`e_flags` name other cores than the `.json`"
        => "check that the `.json` was not edited; the runtime may launch the kernel on the wrong cores";
    DISAGREE = 80 Error: "two ELF parsers read the object differently"
        => "do not use the object; the loader may see yet another one";
    SECOND_PARSER = 81 Warning: "the second ELF parser cannot read the object, so there is no second opinion"
        => "no harm, if it is about names that are no text or very many sections, which it cannot read";
    OPAQUE_START = 82 Error: "the object does not begin as those of the target do"
        => "build the kernel again, or copy it again from where it came";
    TOO_LONG = 83 Error: "the object is longer than those of the target may be"
        => "build the kernel again; what came behind its end is no part of it";
    FLAGS = 84 Error: "the target does not load objects with these `e_flags`"
        => "use the kernel on the device it was built for, or build it for this one";
    CHECK_REFUSES = 85 Error: "a check of the backend's own refuses the kernel"
        => "build the kernel again; if it stays so, report it to the backend's authors";
    CHECK_DOUBTS = 86 Warning: "a check of the backend's own doubts the kernel"
        => "look at what it says";
    CHECK_NOTE = 87 Note: "a check of the backend's own says something of the kernel"
        => "no harm";
    UNVERIFIED = 88 Note: "a check of the backend's own is not known here, so that not all was checked"
        => "no harm; a program that has the backend checks the rest";
    FE_REFUSES = 90 Warning: "CANN's graph engine would refuse the `.json`"
        => "build the kernel with the CANN that is to use it";
    FE_LINT = 91 Note: "CANN's graph engine would ignore or misread a part of the `.json`"
        => "no harm, unless the field matters to you";
    MINDSPORE_LINT = 92 Note: "MindSpore 2.0 would not take the `.json` as it is meant"
        => "no harm, unless the kernel is for MindSpore";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as Markdown.
    fn markdown() -> String {
        let mut text = String::from("| code | severity | found | what to do |\n|---|---|---|---|\n");
        for Rule { code, severity, meaning, remedy } in RULES {
            text.push_str(&format!("| {code} | {severity} | {meaning} | {remedy} |\n"));
        }
        text
    }

    #[test]
    fn rules_are_in_order_and_found() {
        assert!(RULES.is_sorted_by(|a, b| a.code < b.code));
        assert!(RULES.iter().all(|rule| rule.code.rule() == rule));
        assert_eq!(Code::SHA256.to_string(), "OPV005");
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
    }

    /// The documentation is the table, whatever else changes.
    #[test]
    fn the_documentation_has_this_table() {
        let documented = include_str!("../FINDINGS.md");
        assert!(documented.ends_with(&markdown()), "FINDINGS.md should end with:\n{}", markdown());
    }
}
