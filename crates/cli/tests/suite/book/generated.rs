//! The parts of the reference that the program itself states. `cargo xtask docs --update` writes them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::ROOT;

/// The text of the help of a command, in 100 columns.
fn help(command: &[&str]) -> String {
    let mut opkeep = Command::new(env!("CARGO_BIN_EXE_opkeep"));
    let output = opkeep.args(command).arg("--help").env_clear().env("COLUMNS", "100").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A section of a help text: the lines below its title.
fn section<'a>(help: &'a str, title: &str) -> &'a str {
    let Some((_, rest)) = help.split_once(&format!("\n{title}:\n")) else { return "" };
    let is_title = |line: &&str| !line.is_empty() && !line.starts_with(' ');
    let end: usize =
        rest.split_inclusive('\n').take_while(|line| !is_title(&line.trim_end())).map(str::len).sum();
    &rest[..end]
}

/// The names of the commands below a command.
fn commands(help: &str) -> Vec<&str> {
    let lines =
        section(help, "Commands").lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The help of a command and of those below it, each under a heading.
fn reference(command: &[&str], text: &mut String) {
    let help = help(command);
    let name: String = command.iter().map(|word| format!(" {word}")).collect();
    let mut shown = help.clone();
    if !command.is_empty() {
        let global = format!("Global options:\n{}", section(&help, "Global options"));
        shown = help.replace(&global, "");
    }
    text.push_str(&format!("### opkeep{name}\n\n```text\n{}\n```\n\n", shown.trim_end()));
    for name in commands(&help) {
        reference(&[command, &[name]].concat(), text);
    }
}

/// The variables of the environment, as the help lists them: names, then what they mean, in columns.
fn variables() -> String {
    let help = help(&[]);
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in section(&help, "Environment").lines().filter(|line| !line.is_empty()) {
        let (names, meaning) = match line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) {
            Some(line) => line.split_once("  ").unwrap_or((line, "")),
            None => ("", line),
        };
        if !names.is_empty() {
            rows.push((names.to_owned(), String::new()));
        }
        let last = rows.last_mut().unwrap();
        last.1 = format!("{} {}", last.1, meaning.trim()).trim().to_owned();
    }
    assert!(rows.len() > 10, "{rows:?}");
    let code = |names: &str| {
        names
            .split(", ")
            .map(|name| if name == "..." { name.to_owned() } else { format!("`{name}`") })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let row = |(names, meaning): &(String, String)| {
        format!("| {} | {} |\n", code(names), meaning.replace('|', "\\|"))
    };
    format!("| variable | meaning |\n|---|---|\n{}", rows.iter().map(row).collect::<String>())
}

/// The page with `text` as the content of the section `heading`.
fn with_section(page: &str, heading: &str, text: &str) -> String {
    let start = page.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("there is no `{heading}`"))
        + heading.len()
        + 1;
    let end = page[start..].find("\n## ").map_or(page.len(), |at| start + at + 1);
    let after = if end == page.len() { "" } else { "\n" };
    format!("{}\n{}\n{after}{}", &page[..start], text.trim_end(), &page[end..])
}

#[track_caller]
fn compare(path: &str, heading: &str, text: &str) {
    let path = Path::new(ROOT).join(path);
    let page = fs::read_to_string(&path).unwrap();
    let expected = with_section(&page, heading, text);
    if std::env::var_os("OPKEEP_UPDATE_DOCS").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert!(
            page == expected,
            "{}: it is not what the program states; `cargo xtask docs --update` writes it",
            path.display()
        );
    }
}

#[test]
fn the_command_line_is_that_of_the_program() {
    let mut text = String::new();
    reference(&[], &mut text);
    for command in ["build", "gc", "bundle export", "remote check", "completions"] {
        assert!(text.contains(&format!("### opkeep {command}\n")), "{command}");
    }
    compare("docs/command-line.md", "## Commands", &text);
}

#[test]
fn the_variables_are_those_of_the_help() {
    compare("docs/environment.md", "## The command", &variables());
}

#[test]
fn a_section_is_replaced_and_the_rest_stays() {
    let page = "# A\n\n## B\n\nold\n\n## C\n\nrest\n";
    assert_eq!(with_section(page, "## B", "new\n"), "# A\n\n## B\n\nnew\n\n## C\n\nrest\n");
    assert_eq!(with_section(page, "## C", "new\n"), "# A\n\n## B\n\nold\n\n## C\n\nnew\n");
    let help = "Usage: x\n\nCommands:\n  a  does\n     more\n  b-c\n  help  h\n\nOptions:\n  -h\n";
    assert_eq!(commands(help), ["a", "b-c"]);
    assert_eq!(section(help, "Options"), "  -h\n");
}
