//! A file of settings with all keys, to begin with, and the reference in docs/configuration.md.

use super::table::{ALL, Setting};

const HEAD: &str = "\
# Settings of opkeep: remove the `#` before a line to set it. A flag or a variable counts more.
# This file is opkeep.toml of a project, or $XDG_CONFIG_HOME/opkeep/opkeep.toml (~/.config), or
# /etc/opkeep/opkeep.toml. Paths are relative to it. `opkeep config` shows what is in force.
";

/// Returns the text of a file in which all keys are comments.
pub(crate) fn template() -> String {
    let (mut text, mut section) = (HEAD.to_owned(), "");
    for setting in ALL {
        if setting.section() != section {
            section = setting.section();
            text.push_str(&format!("\n[{section}]\n"));
        }
        text.push_str(&format!("\n# {}\n", setting.help.replace('`', "")));
        for line in origins(setting, "") {
            text.push_str(&format!("# {line}\n"));
        }
        text.push_str(&format!("# {} = {}\n", setting.name(), setting.example));
    }
    text
}

/// Returns where else the setting is from, and its default.
fn origins(setting: &Setting, quote: &str) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(setting.flag.map(|flag| format!("Flag: {quote}--{flag}{quote}")));
    let variables: Vec<_> = setting.variables.iter().map(|it| format!("{quote}{}{quote}", it.name)).collect();
    if !variables.is_empty() {
        lines.push(format!("Variable: {}", variables.join(", ")));
    }
    let default =
        if quote.is_empty() { setting.default.replace('`', "") } else { setting.default.to_owned() };
    lines.push(format!("Default: {default}"));
    lines
}

/// Returns the reference of the keys in Markdown.
#[cfg(test)]
pub(crate) fn reference() -> String {
    let mut text = String::from("| key | flag | variable | default | meaning |\n|---|---|---|---|---|\n");
    for setting in ALL {
        let flag = setting.flag.map_or(String::new(), |flag| format!("`--{flag}`"));
        let variables = setting.variables.iter().map(|it| match it.below {
            Some(below) => format!("`{}/{below}`", it.name),
            None => format!("`{}`", it.name),
        });
        let variables = variables.collect::<Vec<_>>().join(", ");
        text.push_str(&format!(
            "| `{}` | {flag} | {} | {} | {} For example `{}`. |\n",
            setting.key, variables, setting.default, setting.help, setting.example
        ));
    }
    text
}

/// Returns what a project that is not trusted may set, in Markdown: keys of the same rule share a row.
#[cfg(test)]
pub(crate) fn projects_reference() -> String {
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for setting in ALL {
        let (key, words) = (format!("`{}`", setting.key), setting.projects.words());
        match rows.iter_mut().find(|row| row.0 == words) {
            Some(row) => row.1.push(key),
            None => rows.push((words, vec![key])),
        }
    }
    let mut text =
        String::from("| keys | what the file of a project that is not trusted may set |\n|---|---|\n");
    rows.iter().for_each(|(words, keys)| text.push_str(&format!("| {} | {words} |\n", keys.join(", "))));
    text
}
