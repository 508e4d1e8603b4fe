#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::*;
use crate::args::Args;

/// Calls `look` with each command, its whole name, and the arguments that name it.
fn each_command(look: &mut dyn FnMut(&str, &[&str])) {
    fn walk(command: &Command, names: &mut Vec<String>, look: &mut dyn FnMut(&str, &[&str])) {
        let args: Vec<&str> = names.iter().map(String::as_str).collect();
        look(&["opkeep"].into_iter().chain(args.iter().copied()).collect::<Vec<_>>().join("-"), &args);
        for sub in command.get_subcommands() {
            names.push(sub.get_name().to_owned());
            walk(sub, names, look);
            names.pop();
        }
    }
    walk(&<Args as clap::CommandFactory>::command(), &mut Vec::new(), look);
}

/// The help of the command that `args` name, as `flag` asks for it.
fn help(args: &[&str], flag: &str, width: usize) -> String {
    let line = ["opkeep"].iter().chain(args).chain(&[flag]).map(Into::into).collect::<Vec<_>>();
    Args::read(&line, || width).unwrap_err().render().to_string()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The column at which the text of a line begins: after the term, if it has one.
fn text_column(line: &str) -> usize {
    let begin = indentation(line);
    match line[begin..].rfind("  ") {
        Some(at) if begin > 0 => begin + at + 2,
        _ => begin,
    }
}

/// Returns lines that were broken although the next word would fit.
fn ragged(text: &str, width: usize) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for pair in lines.windows(2) {
        let [line, next] = pair else { continue };
        let (line, mark) = match line.strip_suffix(" \\") {
            Some(line) => (line, 2),
            None => (*line, 0),
        };
        let is_continued = mark > 0
            || !line.trim().is_empty()
                && !next.trim().is_empty()
                && text_column(line) == indentation(next)
                && indentation(next) == text_column(next)
                // A title, an option, and the next item of a list.
                && !line.ends_with(':')
                && !["-", "[", "opkeep "].iter().any(|item| next.trim_start().starts_with(item));
        let word = next.split_whitespace().next().unwrap_or_default();
        if is_continued && line.chars().count() + 1 + word.chars().count() + mark <= width {
            found.push((line.to_owned(), (*next).to_owned()));
        }
    }
    found
}

#[test]
fn no_line_is_too_long_or_broken_too_early_at_any_width() {
    let mut texts = 0;
    each_command(&mut |name, args| {
        for width in [40, 50, 60, 61, 72, 79, 80, 99, 100, 120] {
            for flag in ["-h", "--help"] {
                let text = help(args, flag, width);
                let too_long = |line: &&str| {
                    // In narrower texts, some names and usages are longer than a line.
                    line.chars().count() > width
                        && (width >= 60 || line.trim().contains(' ') && !line.contains("opkeep "))
                };
                assert_eq!(text.lines().find(too_long), None, "{name} {flag} at {width}");
                if width >= 60 {
                    assert_eq!(ragged(&text, width), [], "{name} {flag} at {width}:\n{text}");
                }
                texts += 1;
            }
        }
    });
    assert!(texts > 400, "{texts}");
}

/// A change that is not intended fails here; an intended one is written with OPKEEP_UPDATE_GOLDEN=1.
#[test]
fn help_is_unchanged() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help");
    let mut changed = Vec::new();
    each_command(&mut |name, args| {
        let mut text = String::new();
        for flag in ["-h", "--help"] {
            for width in [60, 80, 120] {
                writeln!(text, "==== {flag}, {width} columns").unwrap();
                // Clap indents empty lines.
                help(args, flag, width)
                    .lines()
                    .for_each(|line| writeln!(text, "{}", line.trim_end()).unwrap());
                text.push('\n');
            }
        }
        let path = golden.join(format!("{name}.txt"));
        #[expect(clippy::disallowed_methods, reason = "a developer updates the file")]
        if std::env::var_os("OPKEEP_UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(&golden).unwrap();
            fs::write(&path, &text).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != text {
            changed.push(path);
        }
    });
    assert!(changed.is_empty(), "help changed; update these with OPKEEP_UPDATE_GOLDEN=1: {changed:#?}");
}

/// Each command has examples, at the end, and every example is a command line that the command reads.
#[test]
fn examples_are_at_the_end_and_are_command_lines() {
    each_command(&mut |name, args| {
        let text = help(args, "--help", 120);
        let (_, examples) = text.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(!examples.contains("\n\n"), "{name}: {examples}");
        let commands: Vec<&str> =
            examples.lines().filter(|line| indentation(line) == 2).map(str::trim).collect();
        assert!(!commands.is_empty(), "{name}: {examples}");
        for command in commands {
            let begin = command.find("opkeep ").unwrap_or_else(|| panic!("{name}: {command}"));
            let words =
                command[begin..].split_whitespace().take_while(|word| !["|", ">", ">>"].contains(word));
            let line: Vec<std::ffi::OsString> = words.map(Into::into).collect();
            match Args::read(&line, || 100) {
                Ok(_) => {}
                Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp => {}
                Err(error) => panic!("{name}: {command}: {error}"),
            }
        }
    });
}

#[test]
fn short_help_has_one_line_an_option_on_a_wide_terminal() {
    each_command(&mut |name, args| {
        let text = help(args, "-h", 120);
        let lines = text.lines().filter(|line| indentation(line) == 10).count();
        assert_eq!(lines, 0, "{name}:\n{text}");
    });
}
