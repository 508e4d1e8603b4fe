//! The preprocessed text: what of it counts, and which files it is from.
//!
//! ```text
//! # 1 "/build/k_kernel.cpp"           a marker: the next line is this one of this file
//! # 1 "/toolkit/kernel.h" 1 3        the file is entered (1) or left (2), and is a system header (3), or its names are of C (4)
//! ```
//!
//! Markers and empty lines say only where the code stands. They shift with each change of a comment, and with blocks for other tiling keys.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::NotCached;

/// Words by which code shows where it stands, or may: the name of a function with a type that has no name contains its line.
#[rustfmt::skip]
const SHOWING_PLACES: [&[u8]; 14] = [
    b"__builtin_LINE", b"__builtin_FILE", b"__builtin_FILE_NAME", b"__builtin_COLUMN", b"__builtin_FUNCTION", b"__builtin_FUNCSIG",
    b"__builtin_source_location", b"source_location", b"__PRETTY_FUNCTION__", b"__FUNCSIG__", b"__builtin_dump_struct", b"annotate",
    b"__builtin_unique_stable_name", b"__builtin_sycl_unique_stable_name",
];

/// The words of assembly in code.
const ASSEMBLY: [&[u8]; 3] = [b"asm", b"__asm", b"__asm__"];

/// Directives of the assembler that write what they are given: they read no file, show no place, and make no other directive.
#[rustfmt::skip]
const DIRECTIVES: [&[u8]; 31] = [
    b"align", b"balign", b"p2align", b"ascii", b"asciz", b"string", b"byte", b"2byte", b"4byte", b"8byte", b"short", b"hword", b"word", b"long", b"int",
    b"quad", b"zero", b"skip", b"space", b"text", b"data", b"bss", b"previous", b"popsection", b"globl", b"global", b"weak", b"hidden", b"size", b"ident",
    b"type",
];

/// Lines that the preprocessor leaves, and that read files later.
const READING: [&[u8]; 5] =
    [b"#embed", b"#include", b"#import", b"#pragma clang module", b"#pragma GCC pch_preprocess"];

/// The prefixes of a text in quotes that ends only where its own mark says so, and may contain lines.
const RAW: [&[u8]; 5] = [b"R", b"LR", b"uR", b"UR", b"u8R"];

/// A preprocessed text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// The text, with markers.
    pub(crate) whole: Vec<u8>,
    /// The lines of code, with the kinds of the files where these change. `None`: the code may show where it stands.
    pub(crate) code: Option<Vec<u8>>,
    /// The files that the text is from.
    pub(crate) files: BTreeSet<PathBuf>,
}

impl Text {
    /// Reads what the preprocessor wrote for a compile in `dir`. `mark` stands for the date and the time.
    ///
    /// # Errors
    /// The text does not show all that the object depends on.
    pub(crate) fn read(whole: Vec<u8>, dir: &Path, mark: &str) -> Result<Self, NotCached> {
        if crate::roots::contains(&whole, mark.as_bytes()) {
            return Err(NotCached::Date);
        }
        let shows_places = check_words(&whole)?;
        // What separates kinds from code.
        let has_zeros = whole.contains(&0);
        let (mut code, mut files) = (Vec::new(), BTreeSet::new());
        let (mut main, mut kind, mut noted) = (None, b'0', None);
        for line in whole.split(|byte| *byte == b'\n') {
            if let Some((name, flags)) = marker(line) {
                let main = main.get_or_insert_with(|| name.clone());
                let has = |flag: &[u8]| flags.split(|byte| *byte == b' ').any(|word| word == flag);
                // Warnings of headers of the system are off, and the rules are others.
                kind = b'0' + u8::from(has(b"3")) + 2 * u8::from(has(b"4")) + 4 * u8::from(name == *main);
                if !name.starts_with(b"<") {
                    files.insert(dir.join(Path::new(OsStr::from_bytes(&name))));
                }
                continue;
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            if READING.iter().any(|start| line.trim_ascii_start().starts_with(start)) {
                return Err(NotCached::ReadsFiles);
            }
            if noted.replace(kind) != Some(kind) {
                code.extend([0, kind]);
            }
            code.extend_from_slice(line);
            code.push(b'\n');
        }
        Ok(Self { code: (!shows_places && !has_zeros).then_some(code), whole, files })
    }
}

/// Whether a word of the text may show a place.
fn check_words(text: &[u8]) -> Result<bool, NotCached> {
    let (mut shows_places, mut at) = (false, 0);
    while let Some(begin) = text[at..].iter().position(|byte| is_letter(*byte)).map(|found| at + found) {
        let end = text[begin..]
            .iter()
            .position(|byte| !is_letter(*byte))
            .map_or(text.len(), |length| begin + length);
        let word = &text[begin..end];
        if ASSEMBLY.contains(&word) {
            check_assembly(&text[end..])?;
        }
        // A text in quotes with lines of its own: these are no markers, and its empty lines count.
        let is_raw = RAW.contains(&word) && text.get(end) == Some(&b'"');
        shows_places |= is_raw || SHOWING_PLACES.contains(&word);
        at = end;
    }
    Ok(shows_places)
}

/// Checks that assembly has no other directive: one may read a file, write where it stands, or make another one. `rest` is the text behind the
/// word.
fn check_assembly(rest: &[u8]) -> Result<(), NotCached> {
    let (mut words, mut depth, mut bytes) = (Vec::new(), 0_usize, rest.iter().copied());
    let mut before = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if before != b'R' => quoted(&mut bytes, &mut words)?,
            // Quotes of one character may hide others; a block in braces is another form of assembly.
            b'\'' | b'{' | b'"' => return Err(NotCached::Assembly),
            b'(' => depth += 1,
            b')' if depth == 1 => {
                return if has_directive(&words) { Err(NotCached::Assembly) } else { Ok(()) };
            }
            b')' if depth == 0 => return Err(NotCached::Assembly),
            b')' => depth -= 1,
            b';' if depth == 0 => return Err(NotCached::Assembly),
            _ => {}
        }
        before = byte;
    }
    Err(NotCached::Assembly)
}

/// Adds the bytes of a text in quotes to `words`.
fn quoted(bytes: &mut impl Iterator<Item = u8>, words: &mut Vec<u8>) -> Result<(), NotCached> {
    loop {
        match bytes.next().ok_or(NotCached::Assembly)? {
            b'"' => return Ok(()),
            b'\\' => words.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(byte @ (b'"' | b'\\')) => byte,
                _ => return Err(NotCached::Assembly),
            }),
            byte => words.push(byte),
        }
    }
}

/// Whether a point begins an unknown directive. In `vadd.f32`, it is a part of an instruction's name.
fn has_directive(words: &[u8]) -> bool {
    words.iter().enumerate().any(|(at, byte)| {
        let (before, behind) = (&words[..at], &words[at + 1..]);
        let name = before.iter().rev().take_while(|byte| is_letter(**byte)).count();
        // `%0.x` is what the compiler puts in the place of `%0`.
        let is_operand = before.len() > name && matches!(before[before.len() - name - 1], b'%' | b'$');
        let end = behind.iter().position(|byte| !is_letter(*byte)).unwrap_or(behind.len());
        let is_known = !is_operand && DIRECTIVES.contains(&&behind[..end]);
        *byte == b'.' && (name == 0 || is_operand) && !is_known
    })
}

/// The name of the file and the flags in a marker.
fn marker(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let rest = line.strip_prefix(b"# ")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let quoted = rest[digits..].strip_prefix(b" \"").filter(|_| digits > 0)?;
    let (mut name, mut bytes) = (Vec::new(), quoted.iter().copied().enumerate());
    loop {
        match bytes.next()? {
            (at, b'"') => return Some((name, &quoted[at + 1..])),
            (at, b'\\') => {
                let digits: Vec<u8> = quoted[at + 1..]
                    .iter()
                    .copied()
                    .take(3)
                    .take_while(|byte| (b'0'..b'8').contains(byte))
                    .collect();
                match digits.as_slice() {
                    [high, middle, low] => {
                        let value = u32::from(high - b'0') * 64
                            + u32::from(middle - b'0') * 8
                            + u32::from(low - b'0');
                        name.push(u8::try_from(value).ok()?);
                        bytes.nth(2)?;
                    }
                    _ => name.push(bytes.next()?.1),
                }
            }
            (_, byte) => name.push(byte),
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Text, NotCached> {
        Text::read(text.as_bytes().to_vec(), Path::new("/d"), "@mark@")
    }

    fn code(text: &str) -> String {
        String::from_utf8(read(text).unwrap().code.unwrap()).unwrap().replace('\0', "^")
    }

    #[test]
    fn lines_of_code_count_and_where_they_stand_does_not() {
        let one = "# 1 \"a.cpp\"\n# 1 \"/x/h.h\" 1 3\nint h;\n# 2 \"a.cpp\" 2\n\n\nint a;\n  int b;\n";
        let other = "# 1 \"/y/a.cpp\"\n# 1 \"/x/h.h\" 1 3\n\n\nint h;\n# 20 \"/y/a.cpp\" 2\nint a;\n# 70 \"/y/a.cpp\"\n  int b;\n";
        assert_eq!(code(one), "^1int h;\n^4int a;\n  int b;\n");
        assert_eq!(code(one), code(other));
        assert_ne!(code(one), code(&one.replace("1 3", "1")));
        assert_ne!(code(one), code(&one.replace("1 3", "1 3 4")));
        assert_ne!(code(one), code(&one.replace("2 \"a.cpp\" 2", "2 \"b.cpp\" 2")));
        let files: Vec<_> = read(one).unwrap().files.into_iter().collect();
        assert_eq!(files, [PathBuf::from("/d/a.cpp"), PathBuf::from("/x/h.h")]);
        let escaped = read("# 1 \"/x/a\\\"b\\\\c\\303\\244\" 2\n# 1 \"<built-in>\" 1\n").unwrap();
        assert_eq!(escaped.files.into_iter().collect::<Vec<_>>(), [PathBuf::from("/x/a\"b\\c\u{e4}")]);
    }

    #[test]
    fn code_that_may_show_its_place_is_found() {
        for text in [
            "int a = __builtin_LINE();",
            "auto f() { return __builtin_FILE(); }",
            "std::source_location l;",
            "f(__PRETTY_FUNCTION__);",
            "__attribute__((annotate(\"x\"))) int a;",
            "auto s = R\"(\n\n)\";",
            "auto s = u8R\"(\n)\";",
            "int a;\0",
        ] {
            assert_eq!(read(text).unwrap().code, None, "{text}");
        }
        for text in
            ["auto s = \"ERROR\";", "int FLR = 1; g(FLR \"x\");", "__func__;", "my__builtin_LINE;", "int R;"]
        {
            assert!(read(text).unwrap().code.is_some(), "{text}");
        }
    }

    #[test]
    fn assembly_with_directives_is_not_cached() {
        for text in [
            "asm(\".incbin \\\"f\\\"\");",
            "__asm__ volatile(\".inc\" \"bin \\\"f\\\"\");",
            "asm(\"nop\\n.file 1 \\\"a\\\"\");",
            "asm(\"\\x2eincbin\");",
            "asm(\"\\056incbin\");",
            "asm(\"x: .file 1\");",
            "asm(\".byte 1\\n.BYTE 2\");",
            "asm(\".ascii \\\".incbin\\\"\");",
            "asm(\"%0.incbin\" :: \"i\"(1));",
            "asm(R\"(.incbin \"f\")\");",
            "asm(\"nop\" :: \"i\"('\"'));",
            "int x asm(\".incbin\");",
            "__asm { nop }",
            "__asm nop;",
            "asm(\"unfinished",
            "void f() { asm volatile (\"a\" \" .b\" : : \"r\"(g(1)) ); }",
        ] {
            assert_eq!(read(text), Err(NotCached::Assembly), "{text}");
        }
        for text in [
            "asm(\"vadd.f32 %0, %1\" : \"=r\"(A) : \"r\"(ROUNDS));",
            "asm volatile(\"nop\\n\\tnop\" ::: \"memory\");",
            "asm(\".balign 4\\n.ascii \\\"CUBE\\\"\\n.balign 4\");",
            "int x asm(\"y\");",
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_read_later_is_not_cached() {
        assert_eq!(read("x = \"@mark@\";"), Err(NotCached::Date));
        for text in ["#embed \"f\"", "  #pragma clang module load x", "#include <x>"] {
            assert_eq!(read(text), Err(NotCached::ReadsFiles), "{text}");
        }
        assert!(read("#pragma unroll").is_ok());
    }
}
