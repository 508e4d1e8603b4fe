//! Finds and reads the files of settings, and the variables.
//!
//! A value is from the first of: a flag, a variable, the file of the project (`opkeep.toml` in the current directory or the
//! nearest one above it), the file of the user, that of the system. A file that the user names takes the place of all three.
//!
//! The file of a project may have come with a clone or an archive, or be another user's. So (1) it does not count if another
//! user can have written it, which is a warning; (2) unless the user trusts the project, by a setting that no project's file has,
//! keys that decide which code runs, or what is deleted, are errors in it, and a value that permits more than the user's does not
//! count, which is a warning: see [`projects`](super::projects).

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_fs::{FileId, Fs};

use super::error::ConfigError;
use super::file::{FileValues, parse};
use super::owner::{Problem, User, is_readable_by_others, trusting};
use super::projects::ProjectRule;
use super::table::{ALL, Kind, REMOTE_URL, Setting, TRUSTED_PROJECTS};
use super::value::{Layer, Origin, Value, has_password, shown};
use crate::ui::env;

/// The name of a file of settings.
pub(crate) const FILE_NAME: &str = "opkeep.toml";
/// The file that is empty, and the way to use no file.
const NO_FILE: &str = "/dev/null";
/// The maximum size of a file.
const MAX_BYTES: u64 = 1 << 20;

/// A file that was looked for.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) layer: Layer,
    pub(crate) path: PathBuf,
    pub(crate) state: FileState,
}

/// What became of a file.
#[derive(Debug)]
pub(crate) enum FileState {
    Read,
    Missing,
    /// It does not count, since another user can have written it.
    Ignored {
        problem: String,
        help: String,
    },
    /// It has errors.
    Invalid,
}

/// All settings from variables and files.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The values of each setting, in the order of [`ALL`]: those that count more come first.
    values: Vec<Vec<Value>>,
    pub(crate) files: Vec<ConfigFile>,
    /// What does not count in the file of a project, since it permits more than the user does; each with what can be done.
    too_wide: Vec<Problem>,
    pub(crate) errors: Vec<ConfigError>,
}

impl Loaded {
    /// Returns the values of a setting: the first one counts.
    pub(crate) fn values(&self, setting: &Setting) -> &[Value] {
        let at = ALL.iter().position(|one| one.key == setting.key);
        at.and_then(|at| self.values.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Returns the warnings for files and values that do not count, each with what can be done.
    pub(crate) fn ignored(&self) -> impl Iterator<Item = (String, &str)> {
        let files = self.files.iter().filter_map(|file| match &file.state {
            FileState::Ignored { problem, help } => {
                Some((format!("`{}` does not count: {problem}", file.path.display()), help.as_str()))
            }
            _ => None,
        });
        files.chain(self.too_wide.iter().map(|(problem, help)| (problem.clone(), help.as_str())))
    }

    #[cfg(test)]
    pub(crate) fn of_texts(texts: &[&str]) -> Self {
        let mut loaded = Self::default();
        for (at, text) in texts.iter().enumerate() {
            let mut found = parse(Layer::User, &PathBuf::from(format!("/{at}/{FILE_NAME}")), text);
            loaded.errors.append(&mut found.errors);
            found.values.into_iter().for_each(|(setting, value)| loaded.add(setting, value));
        }
        loaded
    }

    #[cfg(test)]
    pub(crate) fn of_variable(setting: &Setting, name: &'static str, text: &str) -> Self {
        let mut loaded = Self::default();
        loaded.add(setting, Value::of_variable(setting, name, text.into()));
        loaded
    }

    fn add(&mut self, setting: &Setting, value: Value) {
        if let Some(at) = ALL.iter().position(|one| one.key == setting.key) {
            self.values.resize(ALL.len(), Vec::new());
            self.values[at].push(value);
        }
    }
}

/// Reads the variables, and the files that count: `named`, if unset the one that a variable names.
pub(crate) fn load(named: Option<&Path>) -> Loaded {
    let mut loaded = Loaded::default();
    read_variables(&mut loaded);
    read_files(named.map(Path::to_owned).or_else(env::config_file), &mut loaded);
    loaded
}

/// Reads the files that count: only `named`, if it is set.
pub(super) fn read_files(named: Option<PathBuf>, loaded: &mut Loaded) {
    let mut files = Vec::new();
    let mut reader = Files { fs: Fs::new(), user: User::current(), loaded };
    match named {
        Some(path) if path == Path::new(NO_FILE) => {}
        Some(path) => files.push(reader.named(&path)),
        None => {
            let user = env::user_config_dir().map(|dir| dir.join("opkeep").join(FILE_NAME));
            let system = env::system_config_dirs().into_iter().map(|dir| dir.join("opkeep").join(FILE_NAME));
            let user = user.map(|path| reader.own(Layer::User, &path));
            let system = reader.first_of_system(&system.collect::<Vec<_>>());
            let trusted = trusted_projects(reader.loaded, user.iter().chain(&system));
            let own: Vec<&Found> = user.iter().chain(&system).collect();
            let project = reader.project(&trusted, &own);
            files = [project, user, system].into_iter().flatten().collect();
        }
    }
    for (file, values) in files {
        values.values.into_iter().for_each(|(setting, value)| loaded.add(setting, value));
        loaded.files.push(file);
    }
}

type Found = (ConfigFile, FileValues);

fn read_variables(loaded: &mut Loaded) {
    for setting in ALL {
        for variable in setting.variables {
            let Some(text) = env::variable(variable.name) else { continue };
            if text.is_empty() && !setting.empty_counts {
                continue;
            }
            let text = match variable.below {
                Some(name) => PathBuf::from(text).join(name).into_os_string(),
                None => text,
            };
            let value = Value::of_variable(setting, variable.name, text);
            if setting.checks_variables {
                loaded.errors.extend(wrong_variable(setting, variable.name, &value));
            }
            loaded.add(setting, value);
        }
    }
}

fn wrong_variable(setting: &'static Setting, name: &'static str, value: &Value) -> Option<ConfigError> {
    value.texts.iter().find_map(|text| {
        // Paths need not be UTF-8.
        let Some(text) = text.to_str() else {
            let is_path = matches!(setting.kind, Kind::Path | Kind::Paths | Kind::Program);
            let problem = || "expected UTF-8".to_owned();
            let value = || text.to_string_lossy().into_owned();
            return (!is_path).then(|| ConfigError::Variable {
                variable: name,
                value: value(),
                problem: problem(),
            });
        };
        let problem = (setting.check)(text).err()?;
        Some(ConfigError::Variable { variable: name, value: shown(setting, text), problem })
    })
}

/// Returns the directories of trusted projects: the variable's, if unset those of the first of `files` that has some.
fn trusted_projects<'a>(loaded: &Loaded, files: impl Iterator<Item = &'a Found>) -> Vec<PathBuf> {
    let in_files = files.flat_map(|(_, found)| &found.values);
    let in_files =
        in_files.filter(|(setting, _)| setting.key == TRUSTED_PROJECTS.key).map(|(_, value)| value);
    let first = loaded.values(&TRUSTED_PROJECTS).iter().chain(in_files).next();
    first.map(|value| value.paths().filter(|path| path.is_absolute()).collect()).unwrap_or_default()
}

struct Files<'a> {
    fs: Fs,
    user: User,
    loaded: &'a mut Loaded,
}

impl Files<'_> {
    /// Reads the file that the user names. It must be there.
    fn named(&mut self, path: &Path) -> Found {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        match self.fs.open_file(&path) {
            Ok((file, metadata)) => self.read(Layer::Named, &path, file, &metadata),
            Err(source) => self.failed(Layer::Named, &path, unreadable(&path, source)),
        }
    }

    /// Reads the file of the user or of the system. A file that others can write to is an error, since it may demand signatures.
    fn own(&mut self, layer: Layer, path: &Path) -> Found {
        let missing = || (file(layer, path, FileState::Missing), FileValues::default());
        // Another user that can replace the file can also remove it.
        if let Some((problem, help)) = path.parent().and_then(|dir| self.problem_of_dir(layer, dir)) {
            return self.failed(layer, path, ConfigError::NotOwn { file: path.to_owned(), problem, help });
        }
        match self.fs.open_file(path) {
            Ok((opened, metadata)) => match self.user.problem(&self.fs, layer, path, &metadata) {
                None => self.read(layer, path, opened, &metadata),
                Some((problem, help)) => {
                    let error = ConfigError::NotOwn { file: path.to_owned(), problem, help };
                    self.failed(layer, path, error)
                }
            },
            // A link whose target is missing, such as a directory that is not mounted, is no missing file.
            Err(error) if is_missing(&error) && self.fs.look(path).is_err() => missing(),
            Err(source) => self.failed(layer, path, unreadable(path, source)),
        }
    }

    /// Returns why another user may replace files in `dir`, if it exists.
    fn problem_of_dir(&self, layer: Layer, dir: &Path) -> Option<Problem> {
        let stat = self.fs.open_dir(dir).and_then(|dir| dir.stat()).ok()?;
        self.user.problem_of_dir(layer, dir, &stat)
    }

    /// Reads the first file of the system that exists.
    fn first_of_system(&mut self, paths: &[PathBuf]) -> Option<Found> {
        let is_there = |path: &&PathBuf| !self.fs.look(path).is_err_and(|error| is_missing(&error));
        let path = paths.iter().find(is_there).or(paths.last())?;
        Some(self.own(Layer::System, path))
    }

    /// Reads the file of the project: the nearest one above the current directory that is none of the user's `own`.
    fn project(&mut self, trusted: &[PathBuf], own: &[&Found]) -> Option<Found> {
        let here = env::current_dir()?;
        let is_own = |path: &Path| own.iter().any(|(file, _)| is_same_file(&self.fs, path, &file.path));
        // What cannot be looked at is no file of this user.
        let is_there = |path: &PathBuf| self.fs.look(path).is_ok() && !is_own(path);
        let path = here.ancestors().map(|dir| dir.join(FILE_NAME)).find(is_there)?;
        let dir = path.parent()?.to_owned();
        let is_trusted = trusted.iter().any(|trusted| is_below(&self.fs, &dir, trusted));
        let (opened, metadata) = match self.fs.open_file(&path) {
            Ok(opened) => opened,
            Err(error) => {
                let help = "`--config FILE` names another file, `--config /dev/null` none".to_owned();
                return Some(ignored(&path, (format!("cannot read it: {error}"), help)));
            }
        };
        let problem = match is_trusted {
            true => None,
            false => {
                let of_file = self.user.problem(&self.fs, Layer::Project, &path, &metadata);
                of_file.or_else(|| self.problem_of_dir(Layer::Project, &dir))
            }
        };
        if let Some(problem) = problem {
            return Some(ignored(&path, problem));
        }
        let (mut file, found) = self.read(Layer::Project, &path, opened, &metadata);
        let mut kept = FileValues::default();
        for (setting, value) in found.values {
            match judged(setting, &value, is_trusted, &dir, own) {
                Judged::Counts => kept.values.push((setting, value)),
                Judged::TooWide(problem) => self.loaded.too_wide.push(problem),
                Judged::Refused(error) => {
                    file.state = FileState::Invalid;
                    self.loaded.errors.push(error);
                }
            }
        }
        Some((file, kept))
    }

    fn read(&mut self, layer: Layer, path: &Path, opened: std::fs::File, metadata: &Metadata) -> Found {
        let bytes = match self.fs.read_opened(path, opened, metadata, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(source) => {
                return self.failed(layer, path, unreadable(path, source));
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return self.failed(layer, path, ConfigError::NotUtf8 { file: path.to_owned() });
        };
        let mut found = parse(layer, path, &text);
        if is_readable_by_others(metadata) {
            found.errors.extend(readable_password(&found, metadata));
        }
        let state = if found.errors.is_empty() { FileState::Read } else { FileState::Invalid };
        self.loaded.errors.append(&mut found.errors);
        (file(layer, path, state), found)
    }

    fn failed(&mut self, layer: Layer, path: &Path, error: ConfigError) -> Found {
        self.loaded.errors.push(error);
        (file(layer, path, FileState::Invalid), FileValues::default())
    }
}

/// What becomes of a value in the file of a project.
enum Judged {
    Counts,
    /// It permits more than the user does.
    TooWide(Problem),
    Refused(ConfigError),
}

/// Judges a value in the file of the project in `dir`. The files of the user and of the system are its `own`, the first one counts.
fn judged(setting: &'static Setting, value: &Value, is_trusted: bool, dir: &Path, own: &[&Found]) -> Judged {
    let Origin::File(_, place) = &value.origin else { return Judged::Counts };
    let (key, place) = (setting.key, place.clone());
    match setting.projects {
        ProjectRule::Never => Judged::Refused(ConfigError::NotInProjects { key, place }),
        _ if is_trusted => Judged::Counts,
        ProjectRule::Any => Judged::Counts,
        ProjectRule::IfTrusted => {
            Judged::Refused(ConfigError::NotTrusted { key, place, dir: dir.to_owned() })
        }
        ProjectRule::Narrower(bound) => {
            let mut values = own.iter().flat_map(|(_, found)| &found.values);
            let limit = values.find(|(one, _)| one.key == key).map(|(_, limit)| limit);
            let text = |value: &Value| value.text().to_string_lossy().into_owned();
            if bound.has(&text(value), limit.map(text).as_deref()) {
                return Judged::Counts;
            }
            let limit = match limit {
                Some(limit) => format!("`{}` at {}", limit.shown(setting).join(" "), limit.origin),
                None => format!("the default, {}", setting.default),
            };
            let value = value.shown(setting).join(" ");
            let problem = format!(
                "`{key}` at {place} does not count: `{value}` permits more than {limit}; a project that is not trusted may set {}",
                bound.words
            );
            Judged::TooWide((
                problem,
                format!("if you trust all who can change that file, {}", trusting(dir)),
            ))
        }
    }
}

fn unreadable(path: &Path, source: io::Error) -> ConfigError {
    ConfigError::Unreadable { file: path.to_owned(), source: Arc::new(source) }
}

fn file(layer: Layer, path: &Path, state: FileState) -> ConfigFile {
    ConfigFile { layer, path: path.to_owned(), state }
}

fn ignored(path: &Path, (problem, help): Problem) -> Found {
    (file(Layer::Project, path, FileState::Ignored { problem, help }), FileValues::default())
}

fn readable_password(found: &FileValues, metadata: &Metadata) -> Option<ConfigError> {
    use std::os::unix::fs::MetadataExt;
    let mut urls = found.values.iter().filter(|(setting, _)| setting.key == REMOTE_URL.key);
    urls.find_map(|(_, value)| match &value.origin {
        Origin::File(_, place) if has_password(&value.text().to_string_lossy()) => {
            Some(ConfigError::Readable { place: place.clone(), mode: metadata.mode() & 0o7777 })
        }
        _ => None,
    })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether two paths lead to one file: a directory above it, such as the user's home, may be a link.
fn is_same_file(fs: &Fs, one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs.metadata(path).ok().map(|found| FileId::of(&found));
    // A link to nothing has no state, but a place.
    let place = |path: &Path| path.parent().map(|dir| fs.resolved(dir).join(FILE_NAME));
    id(one).is_some_and(|found| id(other) == Some(found)) || place(one) == place(other)
}

pub(super) fn is_below(fs: &Fs, dir: &Path, above: &Path) -> bool {
    dir.starts_with(above) || fs.resolved(dir).starts_with(fs.resolved(above))
}
