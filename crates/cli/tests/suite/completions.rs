//! Completion scripts for shells.

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

#[test]
fn bash_completes_commands_flags_and_values() {
    let place = Place::new();
    script(&place, "bash");
    let complete = |words: &str| {
        let code = format!(
            "source script.bash; complete -p opkeep > /dev/null || exit 1; COMP_WORDS=({words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _opkeep opkeep \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        says(&place, "bash", &["--norc", "-c"], &code).expect("the tests need bash")
    };
    assert_eq!(complete("opkeep expl"), "explain\n");
    assert_eq!(complete("opkeep build --kernel-m"), "--kernel-meta\n");
    assert_eq!(complete("opkeep completions f"), "fish\n");
    assert_eq!(complete("opkeep remote che"), "check\n");
    assert_eq!(complete("opkeep remote gc --older"), "--older-than\n");
    assert_eq!(complete("opkeep --format j"), "json\n");
}

#[test]
fn zsh_reads_the_script() {
    let place = Place::new();
    let script = script(&place, "zsh");
    assert!(script.starts_with("#compdef opkeep\n") && script.contains("'explain:"), "{script}");
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
