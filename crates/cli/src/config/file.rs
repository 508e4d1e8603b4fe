//! A file of settings: TOML becomes values with their places.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::table::{ALL, Kind, Setting, sections};
use super::value::{Layer, Origin, Place, Value, shown};
use crate::ui::nearest::nearest_name;

/// The values in a file, and its problems, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct FileValues {
    pub(super) values: Vec<(&'static Setting, Value)>,
    pub(super) errors: Vec<ConfigError>,
}

/// Reads the `text` of the file at `path`, which is absolute.
pub(super) fn parse(layer: Layer, path: &Path, text: &str) -> FileValues {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader { layer, file: path.into(), text, found: FileValues::default() };
    match DeTable::parse(text) {
        Ok(table) => reader.table(table.get_ref()),
        Err(error) => {
            let place = reader.place(error.span().unwrap_or_default());
            // Some of its messages have two lines: what is wrong, and what was expected.
            let problem = error.message().lines().collect::<Vec<_>>().join(", ");
            reader.found.errors.push(ConfigError::Syntax { place, problem });
        }
    }
    let mut found = reader.found;
    // A table has the order of its keys.
    opkeep_order::by_key(&mut found.errors, |error| match error {
        ConfigError::UnknownSection { place, .. }
        | ConfigError::UnknownKey { place, .. }
        | ConfigError::NotASection { place, .. }
        | ConfigError::Value { place, .. } => (place.line, place.column),
        _ => (0, 0),
    });
    found
}

/// The maximum number of errors that are looked for in one file.
const MAX_ERRORS: usize = 20;

struct Reader<'a> {
    layer: Layer,
    file: Arc<Path>,
    text: &'a str,
    found: FileValues,
}

impl Reader<'_> {
    fn place(&self, span: Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            file: Arc::clone(&self.file),
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_begin..].chars().count(),
        }
    }

    /// Whether enough errors are found: each takes time, and a file may have a hundred thousand.
    fn has_enough(&self) -> bool {
        self.found.errors.len() >= MAX_ERRORS
    }

    fn table(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            if self.has_enough() {
                return;
            }
            let (span, name) = (name.span(), name.get_ref().as_ref());
            let section = sections().into_iter().find(|section| *section == name);
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(keys)) => {
                    for (name, value) in keys {
                        if self.has_enough() {
                            return;
                        }
                        self.key(section, name.get_ref(), name.span(), value);
                    }
                }
                (Some(name), _) => {
                    let place = self.place(span);
                    self.found.errors.push(ConfigError::NotASection { place, name });
                }
                (None, DeValue::Table(_)) => {
                    let (place, known) = (self.place(span), sections());
                    self.found.errors.push(ConfigError::UnknownSection {
                        place,
                        name: name.to_owned(),
                        nearest: nearest_name(name, &known),
                        known: known.join(", "),
                    });
                }
                (None, _) => self.key("", name, span, value),
            }
        }
    }

    fn key(&mut self, section: &'static str, name: &str, span: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let known = ALL.iter().find(|setting| setting.section() == section && setting.name() == name);
        let Some(setting) = known else {
            let place = self.place(span);
            let in_section = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
            let help = help_for(section, name);
            self.found.errors.push(ConfigError::UnknownKey {
                place,
                name: name.to_owned(),
                in_section,
                help,
            });
            return;
        };
        match self.value(setting, value) {
            Ok(value) => self.found.values.push((setting, value)),
            Err(error) => self.found.errors.push(error),
        }
    }

    fn value(&self, setting: &'static Setting, value: &Spanned<DeValue<'_>>) -> Result<Value, ConfigError> {
        let place = self.place(value.span());
        let elements = match (setting.kind, value.get_ref()) {
            (Kind::Paths | Kind::Wholes | Kind::Keys, DeValue::Array(elements)) => elements.iter().collect(),
            _ => vec![value],
        };
        let is_list = matches!(value.get_ref(), DeValue::Array(_));
        let mut texts = Vec::new();
        for element in elements {
            let invalid = |value: &str, problem: String| ConfigError::Value {
                key: setting.key,
                value: shown(setting, value),
                place: self.place(element.span()),
                problem,
            };
            let written = self.text.get(element.span()).unwrap_or_default();
            let text = plain_text(setting.kind, element.get_ref(), is_list)
                .map_err(|problem| invalid(written.trim_matches(['"', '\'']), problem))?;
            if text.is_empty() {
                return Err(invalid("", "expected a value that is not empty".to_owned()));
            }
            (setting.check)(&text).map_err(|problem| invalid(&text, problem))?;
            let text = self.located(setting.kind, &text).map_err(|problem| invalid(&text, problem))?;
            texts.push(text);
        }
        Ok(Value { texts, origin: Origin::File(self.layer, place) })
    }

    /// Returns the text with its path, if it has one, relative to the directory of the file.
    fn located(&self, kind: Kind, text: &str) -> Result<OsString, String> {
        let joined = |path: &str| match path.starts_with('~') {
            true => Err("`~` is not expanded; expected a path from `/`, or relative to this file".to_owned()),
            false => Ok(self.file.parent().unwrap_or(Path::new("/")).join(path).into_os_string()),
        };
        match kind {
            Kind::Path | Kind::Paths => joined(text),
            Kind::Keys => match text.strip_prefix('@') {
                Some(path) => {
                    let mut file = OsString::from("@");
                    file.push(joined(path)?);
                    Ok(file)
                }
                None => Ok(text.into()),
            },
            // Spaces separate the program from its arguments.
            Kind::Program => match text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), "")) {
                (program, arguments) if program.contains('/') => {
                    let mut command = joined(program)?;
                    if command.to_string_lossy().contains(char::is_whitespace) {
                        return Err(format!(
                            "its path is `{}`, which would be cut at the space; expected a program whose whole path has no \
                             space, such as a link to it",
                            command.to_string_lossy()
                        ));
                    }
                    if !arguments.is_empty() {
                        command.push(" ");
                        command.push(arguments);
                    }
                    Ok(command)
                }
                _ => Ok(text.into()),
            },
            Kind::Text | Kind::Whole | Kind::Number | Kind::Wholes | Kind::Url => Ok(text.into()),
        }
    }
}

/// Returns a value as the text that a flag would have.
fn plain_text(kind: Kind, value: &DeValue<'_>, in_list: bool) -> Result<String, String> {
    match (kind, value) {
        (Kind::Wholes | Kind::Paths, _) if !in_list => {}
        (Kind::Whole | Kind::Number | Kind::Wholes, DeValue::Integer(number)) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            return Ok(parsed.map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()));
        }
        (Kind::Number, DeValue::Float(number)) => return Ok(number.as_str().to_owned()),
        (Kind::Whole | Kind::Number | Kind::Wholes, _) => {}
        (_, DeValue::String(text)) => return Ok(text.as_ref().to_owned()),
        _ => {}
    }
    let expected = match (kind, in_list) {
        (Kind::Whole, _) | (Kind::Wholes, true) => "a whole number",
        (Kind::Number, _) => "a number",
        (Kind::Wholes, false) => "an array of whole numbers",
        (Kind::Paths, false) => "an array of strings",
        (Kind::Keys, false) => "a string or an array of strings",
        _ => "a string",
    };
    Err(format!("expected {expected}, found {}", kind_of(value)))
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or a time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the hint for an unknown key: the nearest known one, also of another section, or the one that has the flag or the variable
/// of that name.
fn help_for(section: &str, name: &str) -> Option<String> {
    if section == "remote" && name == "headers" {
        return Some("headers have secrets, so they are in a file of their own: `headers-file`".to_owned());
    }
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let same = |setting: &&&Setting| {
        let flags = setting.flag.iter().copied();
        let ending = format!("_{}", plain(name));
        let mut names = flags.chain(setting.variables.iter().map(|variable| variable.name)).map(plain);
        names.any(|it| it == plain(name) || it.ends_with(&ending))
    };
    let of_section = ALL.iter().filter(|setting| setting.section() == section);
    let names: Vec<&str> = of_section.map(|setting| setting.name()).collect();
    let elsewhere =
        || ALL.iter().find(same).or_else(|| ALL.iter().find(|it| plain(it.name()) == plain(name)));
    match nearest_name(name, &names) {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None => elsewhere().map(|setting| match setting.section() {
            "" => format!("did you mean `{}`, before the first section?", setting.name()),
            section => format!("did you mean `{}` in `[{section}]`?", setting.name()),
        }),
    }
}
