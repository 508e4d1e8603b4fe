//! `opkeep config`: the settings in force, and where each is from.

use std::path::Path;

use opkeep_fs::Fs;
use opkeep_store::LimitsFile;
use serde::Serialize;

use crate::config::load::{ConfigFile, FileState, Loaded};
use crate::config::table::{ALL, Kind, MAX_ENTRIES, MAX_SIZE, REMAIN_PERCENT, STORE_DIR, Setting};
use crate::config::template::template;
use crate::config::value::{Layer, Origin, Value};
use crate::config::{ConfigError, Settings};
use crate::ui::config::Verbosity;
use crate::ui::env;
use crate::ui::json;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, padding};

/// The details of config.
const DETAILS: &str = "\
A setting has the value of the first of: a flag, a variable, opkeep.toml in the current directory or the nearest one \
above it (project), $XDG_CONFIG_HOME/opkeep/opkeep.toml or ~/.config/opkeep/opkeep.toml (user), \
$XDG_CONFIG_DIRS/opkeep/opkeep.toml or /etc/opkeep/opkeep.toml (system), and the default. With -v, also the values that it \
overrides. --config FILE or OPKEEP_CONFIG names one file instead of the three; /dev/null is none.

The file of a project does not count if another user can have written it. Keys that decide which code runs (store.dir, \
remote, trust, compiler, ...) are errors in it, unless the project is at or below a directory of trusted-projects in a \
file of the user or of the system, or of OPKEEP_TRUSTED_PROJECTS. docs/configuration.md describes all keys.

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
    let settings: Vec<SettingOutput> = ALL.iter().map(|setting| in_force(setting, loaded)).collect();
    for (problem, help) in loaded.ignored() {
        output.print_warning(&problem);
        output.print_help(help);
    }
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

/// Returns the value of a setting that is in force, and those that it overrides.
pub(crate) fn in_force(setting: &'static Setting, loaded: &Loaded) -> SettingOutput {
    let output = |value: &Value| ValueOutput {
        value: Some(value.shown(setting)),
        origin: OriginOutput::from(&value.origin),
    };
    let mut values: Vec<ValueOutput> = Vec::new();
    values.extend(in_limits_file(setting, loaded));
    values.extend(loaded.values(setting).iter().map(output));
    values.push(ValueOutput { value: default_of(setting), origin: OriginOutput::of_layer("default") });
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

/// Returns the limit in the file of the store, which overrides all others.
fn in_limits_file(setting: &Setting, loaded: &Loaded) -> Option<ValueOutput> {
    if ![&MAX_SIZE, &REMAIN_PERCENT, &MAX_ENTRIES].iter().any(|limit| limit.key == setting.key) {
        return None;
    }
    let root = loaded.values(&STORE_DIR).first().map(Value::path).or_else(env::default_cache_dir)?;
    let (path, file) = limits_file(&root)?;
    let limit = |text: Option<String>| text.filter(|text| (setting.check)(text).is_ok());
    let value = if setting.key == MAX_ENTRIES.key {
        limit(file.entries)?
    } else {
        // Only together do they count.
        let (size, ratio) = (file.size?, file.ratio?);
        let are_valid = (MAX_SIZE.check)(&size).is_ok() && (REMAIN_PERCENT.check)(&ratio).is_ok();
        are_valid.then_some(if setting.key == MAX_SIZE.key { size } else { ratio })?
    };
    let origin = OriginOutput { file: Some(path), ..OriginOutput::of_layer("store") };
    Some(ValueOutput { value: Some(vec![value]), origin })
}

/// Returns the file of limits in the store at `root`, and its path.
fn limits_file(root: &Path) -> Option<(String, LimitsFile)> {
    let path = LimitsFile::path(root);
    let text = Fs::new().read_text(&path, 1 << 20).ok()?;
    Some((json::path(&path), LimitsFile::parse(&text)))
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
