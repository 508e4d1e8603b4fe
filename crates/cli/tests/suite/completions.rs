//! Completion scripts for shells.
#![expect(clippy::disallowed_methods, reason = "tests make directories")]

use std::process::Command;

use crate::common::Place;

/// Saves the script for `shell` in the place, and returns its text.
fn script(place: &Place, shell: &str) -> String {
    let script = place.run(&["completions", shell]).ended_with(0).stdout;
    place.write(&format!("script.{shell}"), &script);
    script
}

/// The output of a shell for `code`, run beside its script; `None` if the machine lacks the shell.
fn says(place: &Place, program: &str, args: &[&str], code: &str) -> Option<String> {
    let output = Command::new(program).args(args).arg(code).current_dir(place.dir.path()).output().ok()?;
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// What bash offers for a command line whose last word is completed; and what it adds, or offers if that is nothing: files or directories.
fn offered(place: &Place, words: &str) -> (Vec<String>, String) {
    // The function that bash calls is the one that the script registers. `compopt` works in a completion only.
    let code = format!(
        "source script.bash; registered=$(complete -p opkeep) || exit 1; files=yes; dirs=; \
         compopt() {{ case \"$*\" in *'+o default'*) files=no${{dirs}} ;; *plusdirs*) dirs=,directories ;; esac; }}; \
         function=${{registered#*-F }}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         ${{function%% *}} opkeep \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
         echo $files; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = says(place, "bash", &["--norc", "-c"], &code).expect("the tests need bash");
    let (files, words) = output.split_once('\n').unwrap();
    (words.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect(), files.to_owned())
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let place = Place::new();
    script(&place, "bash");
    let complete = |words: &str| offered(&place, words).0.join(" ");
    assert_eq!(complete("opkeep expl"), "explain");
    assert_eq!(complete("opkeep build --kernel-m"), "--kernel-meta");
    assert_eq!(complete("opkeep completions f"), "fish");
    assert_eq!(complete("opkeep remote che"), "check");
    assert_eq!(complete("opkeep remote gc --older"), "--older-than");
    assert_eq!(complete("opkeep --format j"), "json");
    // Flags are offered after a `-`.
    let commands = complete("opkeep ''");
    assert!(commands.contains("build run explain") && !commands.contains('-'), "{commands}");
    assert!(complete("opkeep inspect -").contains("--target"));
}

/// Files are offered where a file is meant, directories where a directory is, and values where a value is.
#[test]
fn bash_offers_files_for_paths_only() {
    let place = Place::new();
    script(&place, "bash");
    place.write("a-file.onnx", "");
    std::fs::create_dir(place.path("a-directory")).unwrap();
    for (words, values) in [
        ("opkeep ls --color ''", "auto always never"),
        ("opkeep ls --format ''", "text json"),
        ("opkeep ls --sort ''", "name size used created"),
        ("opkeep ls --state imp", "imported"),
        ("opkeep build --op_compiler_cache_mode ''", "enable force disable read-only require"),
        ("opkeep build --cache-mode re", "read-only require"),
        ("opkeep build --remote-mode ''", "off read read-write"),
        ("opkeep build --cann-driver ''", "auto workers process"),
        ("opkeep build --build-records ''", "on off"),
        ("opkeep build --op_debug_level ''", "0 1 2 3 4"),
        ("opkeep explain --framework ''", "opkeep triton"),
        ("opkeep stats --by ''", "framework kernel"),
        ("opkeep build --target cpu", "cpu cpu-native"),
        // Bash makes words of their own of the text before, at and after `=`.
        ("opkeep build --target = cpu", "cpu cpu-native"),
        ("opkeep ls --color =", "auto always never"),
        // These are numbers and texts.
        ("opkeep build --jobs ''", ""),
        // A word that is offered ends a quotation that is open.
        ("opkeep build --jobs a-", ""),
        ("opkeep build --remote redis", ""),
        ("opkeep build --dim = batch", ""),
        ("opkeep ls --unused ''", ""),
        ("opkeep gc --max-size ''", ""),
        ("opkeep build --remote ''", ""),
        ("opkeep build --target a-", ""),
    ] {
        assert_eq!(
            offered(&place, words),
            (values.split_whitespace().map(str::to_owned).collect(), "no".to_owned()),
            "{words}"
        );
    }
    let files = ["a-directory", "a-file.onnx"];
    for (words, offers, adds) in [
        ("opkeep build --timings = a-", &files[..], "yes"),
        ("opkeep run --input a-", &files, "yes"),
        ("opkeep build --sign-key a-f", &files[1..], "yes"),
        ("opkeep build --toolchain-input a-", &files, "yes"),
        ("opkeep build --kernel-meta a-", &[], "no,directories"),
        ("opkeep ls --cache-dir a-", &[], "no,directories"),
        ("opkeep inspect a-", &[], "yes"),
        ("opkeep inspect ''", &[], "yes"),
    ] {
        let (mut found, added) = offered(&place, words);
        found.sort();
        assert_eq!(
            (found.as_slice(), added.as_str()),
            (offers.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>().as_slice(), adds),
            "{words}"
        );
    }
}

#[test]
fn zsh_reads_the_script() {
    let place = Place::new();
    let script = script(&place, "zsh");
    assert!(script.starts_with("#compdef opkeep\n") && script.contains("'explain:"), "{script}");
    // Values, directories, and nothing.
    for part in [":TARGET:(cpu cpu-native ", ":MODE:(enable force disable ", ":DIR:_files -/'", ":N:'"] {
        assert!(script.contains(part), "{part}: {script}");
    }
    assert!(!script.contains("_default"), "files for a value of any kind: {script}");
    says(&place, "zsh", &["-f", "-n"], "script.zsh");
}

#[test]
fn fish_completes_a_command() {
    let place = Place::new();
    let script = script(&place, "fish");
    assert!(script.contains("complete -c opkeep") && script.contains("-a \"explain\""), "{script}");
    let code = "source script.fish; complete -C 'opkeep expl'";
    if let Some(found) = says(&place, "fish", &["--no-config", "-c"], code) {
        assert!(found.starts_with("explain\t"), "{found}");
    }
    for (words, expected) in [("build --target cpu", "cpu\ncpu-native\n"), ("build --jobs ", "")] {
        let code = format!("source script.fish; complete -C 'opkeep {words}'");
        if let Some(found) = says(&place, "fish", &["--no-config", "-c"], &code) {
            assert_eq!(found, expected, "{words}");
        }
    }
}

#[test]
fn elvish_has_a_completer() {
    let script = script(&Place::new(), "elvish");
    assert!(script.contains("set edit:completion:arg-completer[opkeep]"), "{script}");
    assert!(script.contains("cand explain '"), "{script}");
}

#[test]
fn powershell_has_a_completer() {
    let script = script(&Place::new(), "powershell");
    assert!(script.contains("Register-ArgumentCompleter -Native -CommandName 'opkeep'"), "{script}");
    assert!(script.contains("[CompletionResult]::new('explain', "), "{script}");
}

#[test]
fn an_unknown_shell_is_an_error_that_names_all() {
    let place = Place::new();
    place.run(&["completions", "tcsh"]).ended_with(2).says("bash, elvish, fish, powershell, zsh");
}
