//! Settings: what flags leave open is from variables and files.
//!
//! [`table`] defines each setting once; [`load`] finds the files. The flags that several commands share have a [`Settings`], which
//! all parts of one command line share, and ask it for what the user did not give.

pub(crate) mod checks;
mod error;
mod file;
pub(crate) mod load;
mod owner;
mod projects;
pub(crate) mod table;
pub(crate) mod template;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use clap::builder::TypedValueParser;
use clap::{Arg, ArgMatches, Command};

pub(crate) use self::error::ConfigError;
use self::load::Loaded;
use self::table::Setting;
use self::value::Value;

/// The id of the argument that names a file.
const ID: &str = "config";

/// The settings of one command, below its flags. Copies share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    named: OnceLock<PathBuf>,
    loaded: OnceLock<Loaded>,
}

impl Settings {
    /// Reads the variables and the files, unless that is done. Errors are in the result.
    pub(crate) fn load(&self) -> &Loaded {
        self.0.loaded.get_or_init(|| load::load(self.0.named.get().map(PathBuf::as_path)))
    }

    /// Returns the file that `--config` names.
    pub(crate) fn named(&self) -> Option<&std::path::Path> {
        self.0.named.get().map(PathBuf::as_path)
    }

    /// Reads one file, and no variables, in place of [`load`](Self::load).
    #[cfg(test)]
    pub(crate) fn load_file(&self, path: &std::path::Path) -> &Loaded {
        let mut loaded = Loaded::default();
        load::read_files(Some(path.to_owned()), &mut loaded);
        self.0.loaded.get_or_init(|| loaded)
    }

    /// Has the values of files with these texts, `/0/opkeep.toml` and so on, and no variables, in place of [`load`](Self::load).
    #[cfg(test)]
    pub(crate) fn load_texts(&self, texts: &[&str]) -> &Loaded {
        let loaded = Loaded::of_texts(texts);
        assert!(loaded.errors.is_empty(), "{:?}", loaded.errors);
        self.0.loaded.get_or_init(|| loaded)
    }

    /// Returns the values of a setting: the first one counts. Unit tests do not depend on the files of the person who runs them: they
    /// have none but those that they load.
    pub(crate) fn values(&self, setting: &Setting) -> &[Value] {
        let loaded = if cfg!(test) { self.0.loaded.get() } else { Some(self.load()) };
        loaded.map_or(&[], |loaded| loaded.values(setting))
    }

    /// Returns the value of a setting that counts.
    pub(crate) fn get(&self, setting: &Setting) -> Option<&Value> {
        self.values(setting).first()
    }

    /// Returns the value of a setting as text.
    pub(crate) fn text(&self, setting: &Setting) -> Option<String> {
        Some(self.get(setting)?.text().to_string_lossy().into_owned())
    }

    /// Returns the value of a setting, which its check has accepted, by `parse`.
    pub(crate) fn parsed<T, E>(&self, setting: &Setting, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        parse(&self.text(setting)?).ok()
    }

    pub(crate) fn path(&self, setting: &Setting) -> Option<PathBuf> {
        self.get(setting).map(Value::path)
    }

    /// Returns the path in force if it is from a file, and no variable overrides it.
    pub(crate) fn path_in_file(&self, setting: &Setting) -> Option<PathBuf> {
        self.get(setting).filter(|value| value.is_in_file()).map(Value::path)
    }
}

/// The settings are no arguments of their own: they are where `--config` puts them.
impl clap::FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(matches.try_get_one::<Self>(ID).ok().flatten().cloned().unwrap_or_default())
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Settings {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Parses `--config`: all uses of one parser give the same settings, whatever command they belong to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettingsParser(Settings);

impl TypedValueParser for SettingsParser {
    type Value = Settings;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<Settings, clap::Error> {
        // The default is empty.
        if !value.is_empty() {
            let _ = self.0.0.named.set(value.into());
        }
        Ok(self.0.clone())
    }
}
