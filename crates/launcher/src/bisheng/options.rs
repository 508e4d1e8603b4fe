//! Single options of `bisheng` and `ccec`.

use std::ffi::OsStr;

/// Options without a value that count by their text: they decide how the text is compiled, and show no place in it.
#[rustfmt::skip]
const PLAIN: [&str; 23] = [
    "-w", "-O", "-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Og", "-Ofast", "-g0", "-pipe", "-pthread", "-ansi", "-m64", "-Qn", "-undef",
    "-nostdinc", "-nostdinc++", "-nostdlibinc", "--cce-aicore-only", "--cce-aicore-lang", "--cce-mask-opt",
];

/// Names behind `-f` and `-fno-`.
#[rustfmt::skip]
const FEATURES: [&str; 39] = [
    "PIC", "pic", "PIE", "pie", "exceptions", "cxx-exceptions", "rtti", "common", "unroll-loops", "strict-aliasing", "fast-math", "math-errno",
    "finite-math-only", "associative-math", "reciprocal-math", "signed-zeros", "trapping-math", "rounding-math", "function-sections",
    "data-sections", "omit-frame-pointer", "stack-protector", "stack-protector-strong", "stack-protector-all", "inline", "inline-functions", "builtin",
    "vectorize", "slp-vectorize", "short-enums", "signed-char", "unsigned-char", "wrapv", "threadsafe-statics", "delete-null-pointer-checks",
    "freestanding", "hosted", "asynchronous-unwind-tables", "visibility-inlines-hidden",
];

/// What else may be behind `-f`.
const CHOICES: [&str; 6] = [
    "fp-contract=off",
    "fp-contract=on",
    "fp-contract=fast",
    "visibility=default",
    "visibility=hidden",
    "visibility=protected",
];

/// Options of the compiler for kernels with a value that is a number, true or false, or none.
const SWITCHES: [&str; 5] = [
    "--cce-auto-sync",
    "--cce-disable-kernel-global-attr-check",
    "--cce-long-call",
    "--cce-mask-opt",
    "--cce-aicore-jump-expand",
];

/// Words behind `-mllvm`; those of the compiler for kernels begin with another text.
const PASSES: [&str; 3] = ["api-deps-filter", "disable-machine-licm", "disable-lsr"];
const PASS_PREFIX: &str = "cce-aicore-";

/// What a known option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It decides how the text is compiled, and shows no place in it.
    Plain,
    /// The object or a warning may show where the source lies, or a line's number.
    ShowsPlaces,
}

/// What an option without a further argument does; `None` if that is not known.
pub(super) fn effect(option: &str) -> Option<Effect> {
    let plain = |is_known: bool| is_known.then_some(Effect::Plain);
    let shows_places = |is_known: bool| is_known.then_some(Effect::ShowsPlaces);
    if is_debug_information(option) {
        return Some(Effect::ShowsPlaces);
    }
    if let Some(kinds) = option.strip_prefix("-fsanitize=") {
        return shows_places(kinds.split(',').all(is_word));
    }
    if let Some(warning) = option.strip_prefix("-W") {
        let is_for_another = ["l,", "a,", "p,"].iter().any(|tool| warning.starts_with(tool));
        // A warning that is on may depend on comments and macros, of which the text has nothing.
        let is_off = warning.starts_with("no-") && !warning.starts_with("no-error");
        let is_known = !is_for_another && is_warning(warning);
        return if is_off { plain(is_known) } else { shows_places(is_known) };
    }
    if let Some(feature) = option.strip_prefix("-f") {
        let name = feature.strip_prefix("no-").unwrap_or(feature);
        return plain(FEATURES.contains(&name) || CHOICES.contains(&feature));
    }
    plain(match option.split_once('=') {
        Some(("-std" | "--std" | "--cce-aicore-arch", value)) => is_word(value),
        Some(("-march" | "-mcpu" | "-mtune", value)) => is_word(value) && value != "native",
        Some((name, value)) => SWITCHES.contains(&name) && is_plain_value(value),
        None => PLAIN.contains(&option) || SWITCHES.contains(&option),
    })
}

/// Whether an option asks for something else than an object.
pub(super) fn is_another_action(arg: &[u8]) -> bool {
    let exact: [&[u8]; 11] = [
        b"-E",
        b"-S",
        b"-M",
        b"-MM",
        b"-v",
        b"-###",
        b"--version",
        b"--help",
        b"-fsyntax-only",
        b"-emit-llvm",
        b"-dumpversion",
    ];
    exact.contains(&arg) || arg.starts_with(b"-print-") || arg.starts_with(b"--print-")
}

/// Whether an option asks for information for debuggers in the object itself, and not in another file.
fn is_debug_information(option: &str) -> bool {
    let kinds = ["", "1", "2", "3", "gdb", "gdb0", "gdb1", "gdb2", "gdb3", "line-tables-only", "dwarf"];
    let Some(kind) = option.strip_prefix("-g") else { return false };
    kinds.contains(&kind)
        || kind.strip_prefix("dwarf-").is_some_and(|version| ["2", "3", "4", "5"].contains(&version))
}

/// Whether a word behind `-mllvm` is that of a pass which reads and writes no file.
pub(super) fn is_known_pass(word: &OsStr) -> bool {
    let Some(word) = word.to_str().and_then(|word| word.strip_prefix('-')) else { return false };
    let word = word.strip_prefix('-').unwrap_or(word);
    let (name, value) = word.split_once('=').unwrap_or((word, "true"));
    let is_known = PASSES.contains(&name) || name.starts_with(PASS_PREFIX) && is_word(name);
    is_known && is_plain_value(value)
}

/// Whether a value is a number, true or false: then it names no file.
fn is_plain_value(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number = match digits.strip_prefix("0x") {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number || ["true", "false", "on", "off"].contains(&value)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+_.".contains(&byte))
}

/// Whether a text has only what names of warnings have.
fn is_warning(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+=_#".contains(&byte))
}
