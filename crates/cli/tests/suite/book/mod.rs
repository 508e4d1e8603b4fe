//! The documents: every command in them is run by a test, and prints what they say.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

pub(crate) mod compare;
mod generated;
mod page;
mod session;
mod set_up;

use std::fs;
use std::path::Path;
use std::process::Command;

use opkeep_testkit::toolkit::python;
use page::{Block, Item};
use session::{Finished, Session};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Pages whose blocks are run by tests that need a framework, a compiler or a server; and those tests.
const ELSEWHERE: [(&str, &str); 4] = [
    ("docs/c.md", "crates/capi/tests/cases/docs.rs"),
    ("docs/cluster.md", "crates/cli/tests/cases/cluster/page.rs"),
    ("docs/python.md", "crates/python/tests/test_docs.py"),
    ("docs/triton.md", "crates/python/tests/test_triton_page.py"),
];

/// The reasons why a block is not run. A block with the reason has one of the words, or the reason is not its own.
const REASONS: [(&str, &[&str]); 7] = [
    ("needs CANN", &["Ascend", "kernel_meta/"]),
    ("needs MindSpore", &["mindspore", "train.py"]),
    ("needs a server", &["redis", "s3:", "grpc"]),
    ("needs a builder of images", &["buildah", "podman"]),
    ("needs two users", &["chgrp", "--trusted-owner"]),
    ("installs", &["cargo install", "pip install", "apt-get", "git clone", "tar -xzf"]),
    ("builds the project", &["cargo "]),
];

/// Languages of blocks without commands. Text with commands has the language `console`.
const OTHERS: [&str; 7] = ["text", "json", "ini", "toml", "yaml", "dockerfile", "arrows"];

/// The pages, by path from the root.
fn pages() -> Vec<(String, String)> {
    let names = fs::read_dir(Path::new(ROOT).join("docs")).unwrap();
    let mut paths: Vec<String> = names
        .map(|entry| format!("docs/{}", entry.unwrap().file_name().to_string_lossy()))
        .filter(|path| path.ends_with(".md"))
        .collect();
    paths.extend(["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"].map(str::to_owned));
    paths.sort();
    assert!(paths.len() > 10, "{paths:?}");
    let read = |path: String| {
        let text = fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

fn is_elsewhere(path: &str) -> bool {
    ELSEWHERE.iter().any(|(page, _)| *page == path)
}

#[test]
fn every_command_runs_and_prints_what_its_page_says() {
    let problems: Vec<String> = std::thread::scope(|scope| {
        let run = |(path, text): (String, String)| {
            scope.spawn(move || run_page(&text).err().map(|problem| format!("{path}:{problem}")))
        };
        let pages = pages().into_iter().filter(|(path, _)| !is_elsewhere(path));
        let running: Vec<_> = pages.map(run).collect();
        running.into_iter().filter_map(|page| page.join().unwrap()).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// Runs the blocks of a page in its order. An error begins with the line.
fn run_page(text: &str) -> Result<(), String> {
    let items = page::items(text).map_err(|problem| format!(" {problem}"))?;
    if !items.iter().any(|item| matches!(item, Item::Run { .. } | Item::SetUp { .. }) || is_run(item)) {
        return Ok(());
    }
    let session = Session::new().map_err(|error| format!(" {error}"))?;
    for item in &items {
        match item {
            Item::SetUp { line, name } => {
                set_up::run(name, &session).map_err(|error| format!("{line}: {error}"))?
            }
            Item::Run { line, commands } => run(&session, *line, commands, true, 0).map(drop)?,
            Item::Block(block) if is_run(item) => run_block(&session, block)?,
            Item::Block(_) => {}
        }
    }
    Ok(())
}

fn is_run(item: &Item) -> bool {
    let Item::Block(block) = item else { return false };
    let has_program = |name: &String| Command::new(name).arg("--version").output().is_ok();
    block.not_run.is_none()
        && block.needs.as_ref().is_none_or(has_program)
        && match block.language.as_str() {
            "python" => python().is_some(),
            language => ["sh", "bash", "console"].contains(&language),
        }
}

fn run_block(session: &Session, block: &Block) -> Result<(), String> {
    let line = block.line;
    if block.language == "python" {
        let finished = session.run_python(&block.text).map_err(|error| format!("{line}: {error}"))?;
        return ended(&finished, line, &block.text, 0);
    }
    if block.language != "console" {
        let status = block.statuses.first().copied().unwrap_or(0);
        return run(session, line, &block.text, true, status).map(drop);
    }
    let examples = block.examples()?;
    for (at, example) in examples.iter().enumerate() {
        let expected = block.statuses.get(at).copied().unwrap_or(0);
        let found = run(session, example.line, &example.command, false, expected)?;
        if !compare::is_alike(&example.output, &found) {
            let (line, command, output) = (example.line, &example.command, &example.output);
            return Err(format!("{line}: `{command}` prints\n{found}\nand the page says\n{output}"));
        }
    }
    Ok(())
}

fn run(session: &Session, line: usize, commands: &str, stops: bool, status: i32) -> Result<String, String> {
    let finished = session.run(commands, stops).map_err(|error| format!("{line}: {error}"))?;
    ended(&finished, line, commands, status)?;
    Ok(finished.output)
}

fn ended(finished: &Finished, line: usize, commands: &str, expected: i32) -> Result<(), String> {
    match finished.status {
        Some(status) if status == expected => Ok(()),
        status => Err(format!(
            "{line}: `{commands}` ended with {status:?}, not {expected}, and printed\n{}",
            finished.output
        )),
    }
}

#[test]
fn every_block_is_run_or_says_why_not() {
    let mut problems = Vec::new();
    for (path, text) in pages() {
        for item in page::items(&text).unwrap_or_else(|problem| panic!("{path}: {problem}")) {
            if let Item::Block(block) = item
                && let Some(problem) = problem(&path, &block)
            {
                problems.push(format!("{path}:{}: {problem}", block.line));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What is wrong with a block that is not run.
fn problem(path: &str, block: &Block) -> Option<String> {
    if let Some(reason) = &block.not_run {
        let Some((_, words)) = REASONS.iter().find(|(known, _)| known == reason) else {
            return Some(format!(
                "`{reason}` is no reason not to run a block; there are {:?}",
                REASONS.map(|(reason, _)| reason)
            ));
        };
        let has_word = words.iter().any(|word| block.text.contains(word));
        return (!has_word).then(|| format!("`{reason}`: the block has none of {words:?}"));
    }
    if is_elsewhere(path) {
        return None;
    }
    match block.language.as_str() {
        "sh" | "bash" | "console" | "python" => None,
        // Code of a file that cargo builds.
        "rust" | "c" | "cpp" if is_included(&block.text) => None,
        // The crate `opkeep` has it as an example of its documentation.
        "rust" if path == "README.md" => None,
        language if OTHERS.contains(&language) => {
            let has_command = block.text.lines().any(|line| line.starts_with("$ "));
            has_command.then(|| "it has commands: its language is `console`".to_owned())
        }
        language => Some(format!("no test runs a block of the language `{language}`")),
    }
}

/// Whether all lines are parts of files that tests build.
fn is_included(text: &str) -> bool {
    let is_tested = |line: &str| {
        let path = line.strip_prefix("{{#include ../").and_then(|line| line.strip_suffix("}}"));
        path.is_some_and(|path| path.contains("/examples/") || path.contains("/tests/"))
    };
    text.lines().all(is_tested)
}

#[test]
fn tests_of_other_pages_read_them() {
    for (page, test) in ELSEWHERE {
        let text = fs::read_to_string(Path::new(ROOT).join(test)).unwrap();
        assert!(text.contains(page), "{test} does not read {page}");
        assert!(Path::new(ROOT).join(page).exists(), "{page}");
    }
}

#[test]
fn a_wrong_page_fails() {
    let wrong = [
        ("```sh\nfalse\n```\n", "ended with Some(1)"),
        ("```console\n$ echo a\nb\n```\n", "prints\na\n"),
        ("```console\n$ export A=1\n$ echo $A\n2\n```\n", "3: `echo $A` prints\n1\n"),
        ("<!-- exit status: 1 -->\n```console\n$ true\n```\n", "ended with Some(0), not 1"),
        ("<!-- set up: nothing -->\n", "nothing"),
    ];
    for (page, problem) in wrong {
        let found = run_page(page).unwrap_err();
        assert!(found.contains(problem), "{page}{found}");
    }
    let block = |language: &str, text: &str, not_run: Option<&str>| Block {
        language: language.to_owned(),
        text: text.to_owned(),
        not_run: not_run.map(str::to_owned),
        ..Block::default()
    };
    let wrong = [
        block("sh", "opkeep build a.onnx", Some("needs CANN")),
        block("sh", "opkeep build a.onnx", Some("takes long")),
        block("text", "$ opkeep build a.onnx", None),
        block("rust", "fn main() {}", None),
        block("perl", "1", None),
    ];
    for block in wrong {
        assert!(problem("docs/a.md", &block).is_some(), "{block:?}");
    }
    let fine = [
        block("sh", "opkeep build --target Ascend910B1", Some("needs CANN")),
        block("rust", "{{#include ../crates/engine/examples/framework.rs:a}}\n", None),
        block("text", "an output", None),
    ];
    for block in fine {
        assert_eq!(problem("docs/a.md", &block), None);
    }
}
