//! `opkeep completions`: prints scripts for shells.

use std::collections::BTreeSet;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use opkeep_store::CacheMode;
use serde::Serialize;

use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::Text;

/// The help on how shells read the script.
const DETAILS: &str = "\
An option is completed by its values, by files or by directories, and by nothing if it takes a number or
a text. Of the chips of CANN, --target knows the usual ones; `opkeep targets` lists all.

Examples:
  opkeep completions bash > ~/.local/share/bash-completion/completions/opkeep
    where bash reads it; create the directory first
  opkeep completions zsh > DIR/_opkeep
    for zsh, with DIR in fpath before compinit
  opkeep completions fish > ~/.config/fish/completions/opkeep.fish
    where fish reads it
  opkeep completions elvish > ~/.config/elvish/lib/opkeep.elv
    for elvish, then `use opkeep`
  opkeep completions powershell >> $PROFILE
    where PowerShell reads it";

/// Print a script with which a shell completes the commands, flags and values of opkeep
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// The shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The result as JSON.
#[derive(Serialize)]
struct CompletionsOutput {
    shell: String,
    script: String,
}

/// Prints the script for `command`, which is opkeep with all its commands.
pub(crate) fn run(args: &Args, command: Command, output: &Output) -> anyhow::Result<ExitStatus> {
    let (mut script, mut command) = (Vec::new(), with_values(command));
    clap_complete::generate(args.shell, &mut command, "opkeep", &mut script);
    let mut script = String::from_utf8(script)?;
    if args.shell == Shell::Bash {
        script += &in_bash(&command);
    }
    let json = CompletionsOutput { shell: args.shell.to_string(), script };
    output.print_result(&Text::script(&json.script), &json)?;
    Ok(ExitStatus::Success)
}

/// Usual values of `--target`.
const TARGETS: [&str; 9] = [
    "cpu",
    "cpu-native",
    "ascend",
    "Ascend310P3",
    "Ascend910A",
    "Ascend910B1",
    "Ascend910B2",
    "Ascend910B3",
    "Ascend910B4",
];

/// Returns the usual values of an argument that takes others as well, or whose own parser checks them.
fn usual_values(arg: &Arg) -> Option<Vec<&'static str>> {
    Some(match arg.get_id().as_str() {
        "target" => TARGETS.to_vec(),
        "cache_mode" => CacheMode::ALL.map(CacheMode::name).to_vec(),
        "remote_mode" => vec!["off", "read", "read-write"],
        "op_debug_level" => vec!["0", "1", "2", "3", "4"],
        "framework" => vec!["opkeep", "triton"],
        _ => return None,
    })
}

/// Returns the command, in which each argument has its values or states what it takes: a shell offers files for all others.
fn with_values(command: Command) -> Command {
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() {
        return arg;
    }
    if let Some(values) = usual_values(&arg) {
        return arg.value_parser(PossibleValuesParser::new(values));
    }
    let name = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default();
    let hint = match (arg.get_value_hint(), name.as_str()) {
        // What is parsed as a path is one.
        (ValueHint::AnyPath, "FILE") => ValueHint::FilePath,
        (ValueHint::AnyPath, "DIR") => ValueHint::DirPath,
        (ValueHint::Unknown, _) => ValueHint::Other,
        (hint, _) => hint,
    };
    arg.value_hint(hint)
}

/// Whether an argument may name a file.
fn is_file(arg: &Arg) -> bool {
    matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath)
}

/// Whether a value is a number or a text of the user's own.
fn is_text(arg: &Arg) -> bool {
    arg.get_possible_values().is_empty() && arg.get_value_hint() == ValueHint::Other
}

/// Returns the options for which `is_one` holds in a command, and those for which it does not.
fn options(command: &Command, is_one: fn(&Arg) -> bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut ones, mut others) = (BTreeSet::new(), BTreeSet::new());
    for arg in command.get_opts() {
        let names = if is_one(arg) { &mut ones } else { &mut others };
        names
            .extend(arg.get_long_and_visible_aliases().into_iter().flatten().map(|name| format!("--{name}")));
        names.extend(arg.get_short().map(|name| format!("-{name}")));
    }
    for command in command.get_subcommands() {
        let (more_ones, more_others) = options(command, is_one);
        ones.extend(more_ones);
        others.extend(more_others);
    }
    (ones, others)
}

/// Returns what the script for bash lacks: values after `--option=`, which bash takes for words of their own, no flags before a `-`, and
/// no files where a value is none. Of a text, the script for bash offers what is there so far, at which bash would end an open quotation.
fn in_bash(command: &Command) -> String {
    let (files, others) = options(command, is_file);
    let others: Vec<&str> = others.difference(&files).map(String::as_str).collect();
    let (texts, listed) = options(command, is_text);
    let texts: Vec<&str> = texts.difference(&listed).map(String::as_str).collect();
    format!(
        r#"
_opkeep_value() {{
    local cur="$2" prev="$3" word kept=()
    if [[ "$cur" == "=" ]]; then
        cur=""
        prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    elif [[ "$prev" == "=" ]]; then
        prev="${{COMP_WORDS[COMP_CWORD-2]}}"
    elif [[ "${{COMP_WORDS[COMP_CWORD]}}" == "=" ]]; then
        prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    fi
    _opkeep "$1" "$cur" "$prev"
    for word in "${{COMPREPLY[@]}}"; do
        [[ -n "$word" && ( "$word" != -* || "$cur" == -* ) ]] && kept+=("$word")
    done
    COMPREPLY=("${{kept[@]}}")
    case "$prev" in
        {})
            COMPREPLY=()
            ;;
    esac
    case "$prev" in
        {})
            if [[ "${{BASH_VERSINFO[0]}}" -ge 4 ]]; then
                compopt +o default +o bashdefault
            fi
            ;;
    esac
}}
if [[ "${{BASH_VERSINFO[0]}}" -eq 4 && "${{BASH_VERSINFO[1]}}" -ge 4 || "${{BASH_VERSINFO[0]}}" -gt 4 ]]; then
    complete -F _opkeep_value -o nosort -o bashdefault -o default opkeep
else
    complete -F _opkeep_value -o bashdefault -o default opkeep
fi
"#,
        texts.join("|"),
        others.join("|")
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args;

    fn each(command: &Command, visit: &mut impl FnMut(&Command, &Arg)) {
        command.get_arguments().for_each(|arg| visit(command, arg));
        command.get_subcommands().for_each(|command| each(command, visit));
    }

    #[test]
    fn each_value_is_listed_a_path_or_no_file() {
        let mut unknown = Vec::new();
        each(&with_values(args::Args::command()), &mut |command, arg| {
            let is_known =
                !arg.get_possible_values().is_empty() || arg.get_value_hint() != ValueHint::Unknown;
            if arg.get_action().takes_values() && !is_known {
                unknown.push(format!("{} {}", command.get_name(), arg.get_id()));
            }
        });
        assert_eq!(unknown, Vec::<String>::new());
        let (files, others) = options(&with_values(args::Args::command()), is_file);
        assert!(files.contains("--input") && others.contains("--target") && others.contains("-n"));
        // A name that means a file in one command and a directory in another is completed by both.
        assert_eq!(files.intersection(&others).collect::<Vec<_>>(), ["--output"]);
    }

    /// Values that are listed here are those that the arguments' own parsers take.
    #[test]
    fn usual_values_are_taken() {
        let mut taken = 0;
        each(&args::Args::command(), &mut |_, arg| {
            for value in usual_values(arg).into_iter().flatten() {
                let mut bare = Arg::new("value").long("value").action(clap::ArgAction::Set);
                bare = bare.value_parser(arg.get_value_parser().clone());
                let read = Command::new("test").arg(bare).try_get_matches_from(["test", "--value", value]);
                assert!(read.is_ok(), "{}: {value}: {read:?}", arg.get_id());
                taken += 1;
            }
        });
        assert!(taken > 20, "{taken}");
    }
}
