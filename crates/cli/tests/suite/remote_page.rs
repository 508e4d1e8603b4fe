//! The examples of `docs/remote.md`: each is run, and prints what the page says, but for numbers.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;

use crate::common::{Place, SQUARE};

const PAGE: &str = include_str!("../../../../docs/remote.md");
/// The directory that hosts share, on the page.
const SHARED: &str = "/mnt/kernels";

/// The commands of the page, each with its output.
fn examples() -> Vec<(String, String)> {
    let mut examples = Vec::<(String, String)>::new();
    let mut is_example = false;
    for line in PAGE.lines() {
        match line {
            "```console" => is_example = true,
            "```" => is_example = false,
            _ if !is_example => {}
            line => match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => examples.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => output.push_str(&format!("{line}\n")),
                (None, None) => panic!("`{line}` is the output of no command"),
            },
        }
    }
    examples
}

/// A text in which all numbers and all spaces are alike.
fn without_numbers(text: &str) -> String {
    let number = |word: &str| match word.trim_matches([';', ',', '(', ')']).parse::<f64>() {
        Ok(_) => "0".to_owned(),
        Err(_) => word.to_owned(),
    };
    let line = |line: &str| line.split_whitespace().map(number).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_example_prints_what_the_page_says() {
    let place = Place::new();
    let shared = place.path("shared");
    fs::create_dir(&shared).unwrap();
    // What a build sends, not what `push` does.
    let url = format!("file://{}", shared.display());
    let build = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta", "--remote", &url];
    place.run(&build).ended_with(0).prints("1 sent");
    let examples = examples();
    let commands: Vec<_> = examples.iter().filter_map(|(command, _)| command.split(' ').nth(2)).collect();
    assert_eq!(commands, ["check", "ls", "stats", "push", "gc"], "a command has no example");
    for (command, expected) in examples {
        let own = command.replace(SHARED, shared.to_str().unwrap());
        let args: Vec<_> = own.split(' ').skip(1).collect();
        let ran = place.run(&args).ended_with(0);
        let found = ran.stdout.replace(shared.to_str().unwrap(), SHARED);
        assert_eq!(without_numbers(&found), without_numbers(&expected), "{command}");
    }
}
