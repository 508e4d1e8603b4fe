//! `opkeep config`: the settings in force, and where each is from.

use std::path::Path;

use opkeep_fs::Fs;
use opkeep_store::{LimitRules, LimitSettings, LimitWarning, LimitsFile};
use serde::Serialize;

use crate::config::load::{ConfigFile, FileState, Loaded};
use crate::config::table::{ALL, Kind, MAX_ENTRIES, MAX_SIZE, REMAIN_PERCENT, STORE_DIR, Setting};
use crate::config::template::template;
use crate::config::value::{Layer, Origin, Value};
use crate::config::{ConfigError, Settings};
use crate::flags::store::StoreArgs;
use crate::ui::config::Verbosity;
use crate::ui::env;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, padding};

/// The maximum size of a store's file of limits: the store does not read a larger one.
const MAX_LIMITS_FILE: u64 = 64 << 10;

/// The details of config.
const DETAILS: &str = "\
A setting has the value of the first of: a flag, a variable, opkeep.toml in the current directory or the nearest one \
above it (project), $XDG_CONFIG_HOME/opkeep/opkeep.toml or ~/.config/opkeep/opkeep.toml (user), \
$XDG_CONFIG_DIRS/opkeep/opkeep.toml or /etc/opkeep/opkeep.toml (system), and the default. With -v, also the values that it \
overrides. --config FILE or OPKEEP_CONFIG names one file instead of the three; /dev/null is none.

The file of a project does not count if another user can have written it. Unless the project is at or below a directory of \
trusted-projects in a file of the user or of the system, or of OPKEEP_TRUSTED_PROJECTS, keys that decide which code runs \
(store.dir, remote, trust, compiler, ...) or what is deleted (the limits of the store) are errors in it, and other values count \
if they permit no more than the user's. docs/configuration.md has the rule of each key.

Exit code 1: a file or a variable is not valid.

Examples:
  opkeep config -v
    shows all settings, and what each overrides
  opkeep config --template
    prints a file with all keys, to begin with";

/// Show the settings in force, and where each is from
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    /// Print a file with all keys as comments
    #[arg(long)]
    template: bool,
    #[command(flatten)]
    config: Settings,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    if args.template {
        let template = template();
        output.print_result(&Text::script(&template), &TemplateOutput { template: &template })?;
        return Ok(ExitStatus::Success);
    }
    let loaded = args.config.load();
    let store = StoreArgs::of(&args.config);
    let root = store.dir();
    let of = |setting: &&'static Setting| in_force(setting, loaded, root.as_deref());
    let settings: Vec<SettingOutput> = ALL.iter().map(of).collect();
    for (problem, help) in loaded.ignored() {
        output.print_warning(&problem);
        output.print_help(help);
    }
    ignored_limits(&store.limits()).iter().for_each(|warning| output.print_warning(&warning.to_string()));
    loaded.errors.iter().for_each(|error| output.print_error(&error.clone().into()));
    let files = loaded.files.iter().map(FileOutput::from).collect();
    let errors = loaded.errors.iter().map(ErrorOutput::from).collect();
    let text = text(&settings, loaded, output.verbosity() == Verbosity::Verbose);
    output.print_result(&text, &ConfigOutput { settings, files, errors })?;
    Ok(if loaded.errors.is_empty() { ExitStatus::Success } else { ExitStatus::Problems })
}

/// The result as JSON.
#[derive(Serialize)]
struct ConfigOutput {
    settings: Vec<SettingOutput>,
    files: Vec<FileOutput>,
    errors: Vec<ErrorOutput>,
}

/// The template as JSON.
#[derive(Serialize)]
struct TemplateOutput<'a> {
    template: &'a str,
}

#[derive(Serialize)]
pub(crate) struct SettingOutput {
    pub(crate) key: &'static str,
    #[serde(flatten)]
    pub(crate) value: ValueOutput,
    overrides: Vec<ValueOutput>,
}

/// A value and its origin, as JSON. Lists have all their values.
#[derive(Clone, Serialize)]
pub(crate) struct ValueOutput {
    /// None: there is no value, and no default that is one.
    pub(crate) value: Option<Vec<String>>,
    pub(crate) origin: OriginOutput,
}

#[derive(Clone, Serialize)]
pub(crate) struct OriginOutput {
    pub(crate) layer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

#[derive(Serialize)]
struct FileOutput {
    layer: &'static str,
    file: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
struct ErrorOutput {
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl From<&ConfigError> for ErrorOutput {
    fn from(error: &ConfigError) -> Self {
        Self { error: error.to_string(), help: error.help() }
    }
}

impl From<&ConfigFile> for FileOutput {
    fn from(file: &ConfigFile) -> Self {
        let (state, problem) = match &file.state {
            FileState::Read => ("read", None),
            FileState::Missing => ("missing", None),
            FileState::Ignored { problem, .. } => ("ignored", Some(problem.clone())),
            FileState::Invalid => ("invalid", None),
        };
        Self { layer: file.layer.name(), file: json::path(&file.path), state, problem }
    }
}

impl OriginOutput {
    fn of_layer(layer: &'static str) -> Self {
        Self { layer, variable: None, file: None, line: None, column: None }
    }

    pub(crate) fn text(&self) -> String {
        match (self.variable, &self.file, self.line, self.column) {
            (Some(variable), ..) => variable.to_owned(),
            (None, Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}"),
            (None, Some(file), ..) => file.clone(),
            _ => self.layer.to_owned(),
        }
    }
}

impl From<&Origin> for OriginOutput {
    fn from(origin: &Origin) -> Self {
        match origin {
            Origin::Variable(name) => Self { variable: Some(name), ..Self::of_layer("variable") },
            Origin::File(layer, place) => Self {
                file: Some(json::path(&place.file)),
                line: Some(place.line),
                column: Some(place.column),
                ..Self::of_layer(Layer::name(*layer))
            },
        }
    }
}

/// Returns the value of a setting that is in force for the store at `root`, and those that it overrides.
pub(crate) fn in_force(setting: &'static Setting, loaded: &Loaded, root: Option<&Path>) -> SettingOutput {
    let output = |value: &Value| ValueOutput {
        value: Some(value.shown(setting)),
        origin: OriginOutput::from(&value.origin),
    };
    let mut values: Vec<ValueOutput> = Vec::new();
    values.extend(root.and_then(|root| in_limits_file(setting, root)));
    let default = ValueOutput { value: default_of(setting), origin: OriginOutput::of_layer("default") };
    let configured = loaded.values(setting);
    match configured.first().and_then(|value| limit_of(setting, value)) {
        // The store gets this value only, and uses none for it.
        Some(limit) if !ignored_limits(&limit).is_empty() => {
            values.push(default);
            values.extend(configured.iter().map(output));
        }
        _ => {
            values.extend(configured.iter().map(output));
            values.push(default);
        }
    }
    let value = values.remove(0);
    SettingOutput { key: setting.key, value, overrides: values }
}

/// Returns the default, if it is a value and no words.
fn default_of(setting: &Setting) -> Option<Vec<String>> {
    if setting.key == STORE_DIR.key {
        return Some(vec![json::path(&env::default_cache_dir()?)]);
    }
    let is_value = !setting.default.contains(' ')
        && setting.default != "none"
        && (setting.check)(setting.default).is_ok()
        && matches!(setting.kind, Kind::Text | Kind::Whole | Kind::Number);
    is_value.then(|| vec![setting.default.to_owned()])
}

/// Returns the limit in the file of the store at `root`, which overrides all others, as the store reads it.
fn in_limits_file(setting: &Setting, root: &Path) -> Option<ValueOutput> {
    let (path, file) = limits_file(root)?;
    // What results from the file alone is from the file.
    let (limits, are_size_and_ratio) =
        LimitRules::STORE.resolve(&file, &path, &LimitSettings::new(), &mut Vec::new());
    let value = match setting.key {
        key if key == MAX_SIZE.key => file.size.filter(|_| are_size_and_ratio),
        key if key == REMAIN_PERCENT.key => file.ratio.filter(|_| are_size_and_ratio),
        key if key == MAX_ENTRIES.key => file.entries.filter(|_| limits.max_entries.is_some()),
        _ => None,
    };
    let origin = OriginOutput { file: Some(path), ..OriginOutput::of_layer("store") };
    Some(ValueOutput { value: Some(vec![value?]), origin })
}

/// Returns the value as the store gets it, if it is a limit.
fn limit_of(setting: &Setting, value: &Value) -> Option<LimitSettings> {
    let text = Some(value.text().to_string_lossy().into_owned());
    let mut limits = LimitSettings::new();
    match setting.key {
        key if key == MAX_SIZE.key => limits.max_op_cache_size = text,
        key if key == REMAIN_PERCENT.key => limits.remain_cache_size_ratio = text,
        key if key == MAX_ENTRIES.key => limits.max_entries = text,
        _ => return None,
    }
    Some(limits)
}

/// Returns the limits that the store does not use, since they are not valid.
fn ignored_limits(limits: &LimitSettings) -> Vec<LimitWarning> {
    let mut warnings = Vec::new();
    LimitRules::STORE.resolve(&LimitsFile::default(), "", limits, &mut warnings);
    warnings
}

/// Returns the file of limits in the store at `root`, and its path.
fn limits_file(root: &Path) -> Option<(String, LimitsFile)> {
    let path = LimitsFile::path(root);
    let text = Fs::new().read(&path, MAX_LIMITS_FILE).ok()?;
    Some((json::path(&path), LimitsFile::parse(&String::from_utf8_lossy(&text))))
}

/// Returns a value for people. Without one, it has the words for the default.
fn shown(key: &str, value: &ValueOutput) -> String {
    let words = || ALL.iter().find(|setting| setting.key == key).map_or("", |setting| setting.default);
    match &value.value {
        Some(texts) => texts.join(" "),
        // The words before the exceptions.
        None => words().split([';', ':']).next().unwrap_or_default().to_owned(),
    }
}

fn text(settings: &[SettingOutput], loaded: &Loaded, is_verbose: bool) -> Text {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for setting in settings {
        let row = |key: &str, value: &ValueOutput| {
            vec![format!("{key:<26}  {}", shown(setting.key, value)), value.origin.text()]
        };
        rows.push(row(setting.key, &setting.value));
        if is_verbose {
            let overridden = setting.overrides.iter().filter(|value| value.value.is_some());
            rows.extend(overridden.map(|value| row("  overrides", value)));
        }
    }
    let mut text = Text::default();
    let width =
        rows.iter().map(|row| row[0].chars().count()).filter(|width| *width <= 70).max().unwrap_or_default();
    for row in rows {
        text.line(format_args!("{}{}  {}", row[0], padding(&row[0], width), row[1]));
    }
    for ConfigFile { layer, path, state } in &loaded.files {
        let state = match state {
            FileState::Read => "",
            FileState::Missing => " (missing)",
            FileState::Ignored { .. } => " (ignored)",
            FileState::Invalid => " (not valid)",
        };
        text.line(format_args!("{} file: {}{state}", layer.name(), path.display()));
    }
    text
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make files")]
mod tests {
    use super::*;

    /// Returns the value in force and where it is from.
    fn found(setting: &'static Setting, loaded: &Loaded, root: Option<&Path>) -> (String, String) {
        let ValueOutput { value, origin } = in_force(setting, loaded, root).value;
        (value.unwrap_or_default().join(" "), origin.text())
    }

    #[test]
    fn limits_are_shown_as_the_store_uses_them() {
        let default = |text: &str| (text.to_owned(), "default".to_owned());
        for (name, setting, bad, of_default) in [
            ("ASCEND_MAX_OP_CACHE_SIZE", &MAX_SIZE, "abc", "500"),
            ("ASCEND_MAX_OP_CACHE_SIZE", &MAX_SIZE, "500MB", "500"),
            ("ASCEND_REMAIN_CACHE_SIZE_RATIO", &REMAIN_PERCENT, "101", "50"),
            ("OPKEEP_MAX_CACHE_ENTRIES", &MAX_ENTRIES, "0", ""),
        ] {
            let of = |text: &str| Loaded::of_variable(setting, name, text);
            assert_eq!(found(setting, &of(bad), None), default(of_default), "{name}");
            // It is reported, and what counts less does not take its place.
            let overridden = in_force(setting, &of(bad), None).overrides;
            assert_eq!(overridden[0].value, Some(vec![bad.to_owned()]));
            assert_eq!(found(setting, &of(" 7 "), None), (" 7 ".to_owned(), name.to_owned()));
        }
    }

    #[test]
    fn the_file_of_limits_is_that_of_the_store_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let ini = dir.path().join("op_cache.ini");
        let loaded = Loaded::of_variable(&MAX_SIZE, "ASCEND_MAX_OP_CACHE_SIZE", "7");
        let of = |text: &str, setting| {
            std::fs::write(&ini, text).unwrap();
            found(setting, &loaded, Some(dir.path()))
        };
        let (from_ini, from_variable) = (ini.display().to_string(), "ASCEND_MAX_OP_CACHE_SIZE".to_owned());
        let both = "max_op_cache_size=9\nremain_cache_size_ratio=40\nmax_op_cache_entries=3\n";
        assert_eq!(of(both, &MAX_SIZE), ("9".to_owned(), from_ini.clone()));
        assert_eq!(of(both, &REMAIN_PERCENT), ("40".to_owned(), from_ini.clone()));
        assert_eq!(of(both, &MAX_ENTRIES), ("3".to_owned(), from_ini));
        for one in ["max_op_cache_size=9", "max_op_cache_size=9\nremain_cache_size_ratio=0"] {
            assert_eq!(of(one, &MAX_SIZE), ("7".to_owned(), from_variable.clone()), "{one}");
            assert_eq!(of(one, &REMAIN_PERCENT).1, "default", "{one}");
        }
        assert_eq!(of("max_op_cache_entries=0", &MAX_ENTRIES).1, "default");
    }
}
