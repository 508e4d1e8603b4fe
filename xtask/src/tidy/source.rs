//! Rules for every Rust file.

use super::finding::Finding;
use super::rust::{code_only, tokens};

/// The largest number of lines: a longer file has a second subject, which belongs in its own file.
const MAX_LINES: usize = 600;

/// The largest distance of a `// SAFETY:` comment from its `unsafe`.
const NEAR: usize = 3;

const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Whether `path` is a Rust file of this project.
pub(super) fn concerns(path: &str) -> bool {
    path.ends_with(".rs")
        && ["crates/", "xtask/", "benches/"].iter().any(|directory| path.starts_with(directory))
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines: Vec<&str> = text.split('\n').collect();
    let count = text.lines().count();
    if count > MAX_LINES {
        let problem = format!("the file has {count} lines, more than {MAX_LINES}");
        findings.push(Finding::new(path, MAX_LINES + 1, problem, "split it by subject"));
    }
    for (number, line) in (1..).zip(&lines) {
        if line.contains('\t') {
            findings.push(Finding::new(path, number, "there is a tab", "use spaces, or `\\t` in a literal"));
        }
        if line.ends_with(char::is_whitespace) {
            findings.push(Finding::new(path, number, "the line ends in white space", "remove it"));
        }
    }

    let code = code_only(text);
    let tokens = tokens(&code);
    let may_be_unsafe = path.ends_with("/ffi.rs") || path.contains("/ffi/");
    for (at, (line, token)) in tokens.iter().enumerate() {
        let following: Vec<&str> = tokens[at + 1..].iter().take(3).map(|(_, token)| *token).collect();
        if UNFINISHED.contains(token) && matches!(following[..], ["!", "(" | "[" | "{", ..]) {
            let problem = format!("`{token}!` marks unfinished code");
            findings.push(Finding::new(path, line + 1, problem, "finish it, or return an error"));
        }
        if *token != "unsafe" {
            continue;
        }
        if !may_be_unsafe {
            let problem = "`unsafe` stands outside the FFI module";
            findings.push(Finding::new(
                path,
                line + 1,
                problem,
                "move it to the crate's ffi.rs, behind a safe function",
            ));
        }
        let (function, wanted) = match following[..] {
            // `unsafe fn(..)` and `unsafe extern fn(..)` are types.
            ["fn", "(", ..] | ["extern", "fn", "("] => continue,
            ["fn", ..] | ["extern", "fn", ..] => (true, "a `# Safety` section, or a `// SAFETY:` comment"),
            ["{" | "impl", ..] => (false, "a `// SAFETY:` comment"),
            _ => continue,
        };
        if !is_justified(&lines[..*line], function) {
            let problem = format!("the `unsafe` lacks {wanted}");
            findings.push(Finding::new(path, line + 1, problem, "state above it why it is sound"));
        }
    }
    findings
}

/// Whether a justifying comment is at most [`NEAR`] lines above, or extends to there.
fn is_justified(above: &[&str], function: bool) -> bool {
    let is_note = |line: &str| line.starts_with("//") || line.starts_with("#[");
    let mut within_note = false;
    for (distance, line) in above.iter().rev().enumerate() {
        let line = line.trim_start();
        if distance >= NEAR && !(within_note && is_note(line)) {
            return false;
        }
        if line.contains("// SAFETY:") || (function && line.starts_with("///") && line.contains("# Safety")) {
            return true;
        }
        within_note = is_note(line);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let cut = |finding: &Finding| finding.to_string().split(';').next().unwrap_or_default().to_owned();
        check(path, text).iter().map(cut).collect()
    }

    const FFI: &str = "crates/x/src/ffi.rs";

    #[test]
    fn only_our_rust_files_count() {
        for path in ["crates/x/src/a.rs", "xtask/src/main.rs", "benches/b.rs"] {
            assert!(concerns(path), "{path}");
        }
        for path in ["fuzz/a.rs", "crates/x/a.md", "docs/a.rs"] {
            assert!(!concerns(path), "{path}");
        }
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(found("a.rs", &"x\n".repeat(600)), [""; 0]);
        assert_eq!(found("a.rs", &"x\n".repeat(601)), ["a.rs:601: the file has 601 lines, more than 600"]);
    }

    #[test]
    fn tabs_and_trailing_white_space_are_found() {
        assert_eq!(
            found("a.rs", "a\n\tb\nc \nd\r\n"),
            [
                "a.rs:2: there is a tab",
                "a.rs:3: the line ends in white space",
                "a.rs:4: the line ends in white space"
            ]
        );
    }

    #[test]
    fn unfinished_code_is_found_but_not_its_mention() {
        for name in ["todo", "unimplemented", "dbg"] {
            let problem = format!("a.rs:2: `{name}!` marks unfinished code");
            assert_eq!(found("a.rs", &format!("\n{name}!(x)")), [problem.as_str()]);
            assert_eq!(found("a.rs", &format!("\n{name} ! {{}}")), [problem.as_str()]);
            let talk = format!("// {name}!()\n\"{name}!()\"; my_{name}!(); {name} != 1");
            assert_eq!(found("a.rs", &talk), [""; 0]);
        }
    }

    #[test]
    fn unsafe_stands_in_ffi_modules_only() {
        let text = "// SAFETY: x\nunsafe { f() }";
        for path in [FFI, "crates/x/src/ffi/dl.rs"] {
            assert_eq!(found(path, text), [""; 0], "{path}");
        }
        for path in ["crates/x/src/lib.rs", "crates/x/src/myffi.rs"] {
            assert_eq!(found(path, text), [format!("{path}:2: `unsafe` stands outside the FFI module")]);
        }
        let talk = "#![expect(unsafe_code, reason = \"unsafe\")] // unsafe\n/* unsafe */ let unsafely = 'u';";
        assert_eq!(found("a.rs", talk), [""; 0]);
    }

    #[test]
    fn unsafe_code_needs_a_justification() {
        let comment = format!("{FFI}:5: the `unsafe` lacks a `// SAFETY:` comment");
        for code in ["unsafe { f() }", "unsafe impl Send for X {}"] {
            assert_eq!(found(FFI, &format!("\n\n\n\n{code}")), [comment.as_str()]);
            assert_eq!(found(FFI, &format!("// SAFETY: x\n\n\n\n{code}")), [comment.as_str()]);
            assert_eq!(found(FFI, &format!("\n// # Safety\n/// # Safety\n\n{code}")), [comment.as_str()]);
            assert_eq!(found(FFI, &format!("\n// SAFETY: x\n\n\n{code}")), [""; 0]);
            assert_eq!(found(FFI, &format!("// SAFETY: a\n// b\n// c\n// d\n// e\n{code}")), [""; 0]);
        }
        let either = format!("{FFI}:5: the `unsafe` lacks a `# Safety` section, or a `// SAFETY:` comment");
        for code in ["unsafe fn f() {}", "pub unsafe extern \"C\" fn f() {}"] {
            assert_eq!(found(FFI, &format!("\n\n\n\n{code}")), [either.as_str()]);
            assert_eq!(
                found(FFI, &format!("/// # Safety\n///\n/// x\n/// y\n/// z\n#[cold]\n{code}")),
                [""; 0]
            );
            assert_eq!(found(FFI, &format!("// SAFETY: x\n{code}")), [""; 0]);
        }
    }

    #[test]
    fn types_and_attributes_need_no_reason() {
        let text = "type A = unsafe fn(u8);\ntype B = unsafe extern \"C\" fn(u8);\n#[unsafe(no_mangle)]\n";
        assert_eq!(found(FFI, text), [""; 0]);
    }
}
