//! Variables of the environment, as the caller looks them up.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::text::SettingText;
use crate::options::Variable;

/// The file of the host key, below the directory for the state of programs: one for all programs of a user, so that each takes
/// what the others built on this host.
pub const HOST_KEY_PATH: &str = "opkeep/host-key";

/// Returns the value of a variable; `None` if it is unset. The value of one that is set may be empty: it is returned, too, since an
/// empty setting is not the same as none.
pub type Lookup = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// The variables of an environment: those of settings have a common prefix; those of engines, such as `AWS_ACCESS_KEY_ID`,
/// `HOME` and `XDG_STATE_HOME` have the names by which other programs know them.
#[derive(Clone)]
pub struct Variables {
    prefix: String,
    lookup: Arc<Lookup>,
    home: Option<PathBuf>,
}

impl Variables {
    /// Creates variables whose settings are called `<prefix>_REMOTE`, `<prefix>_REMOTE_MODE`, `<prefix>_REMOTE_NAMESPACE`,
    /// `<prefix>_REMOTE_HEADERS`, `<prefix>_REMOTE_HEADERS_FILE`, `<prefix>_REMOTE_TLS_CA`, `<prefix>_REMOTE_TLS_CERTIFICATE`,
    /// `<prefix>_REMOTE_TLS_KEY`, `<prefix>_SIGN_KEY` and `<prefix>_TRUSTED_KEYS`. `lookup` is called later, too, on any thread.
    pub fn new(prefix: &str, lookup: Arc<Lookup>) -> Self {
        Self { prefix: prefix.to_owned(), lookup, home: None }
    }

    /// Returns the variables, with a home directory for an environment that names none.
    #[must_use]
    pub fn with_home(mut self, home: Option<PathBuf>) -> Self {
        self.home = home;
        self
    }

    /// Returns the name of the variable of a setting, such as `REMOTE`.
    pub fn name(&self, setting: &str) -> String {
        format!("{}_{setting}", self.prefix)
    }

    /// Returns the value of a variable that is set and not empty.
    fn value(&self, name: &str) -> Option<OsString> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// Returns a setting that is set, also if it is empty.
    pub(super) fn setting(&self, setting: &str) -> Option<SettingText> {
        let name = self.name(setting);
        Some(SettingText::new((self.lookup)(&name)?, name))
    }

    /// Returns a setting that is set and not empty.
    pub(super) fn setting_unless_empty(&self, setting: &str) -> Option<SettingText> {
        self.setting(setting).filter(|setting| !setting.value().is_empty())
    }

    /// Returns the file of the host key. It is not in the store, which others may write to, and which may become part of an image.
    pub(super) fn host_key_file(&self) -> Option<PathBuf> {
        let absolute = |name| self.value(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || absolute("HOME").or_else(|| self.home.clone().filter(|home| home.is_absolute()));
        // The XDG rules: a relative path counts as unset.
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")));
        state.map(|state| state.join(HOST_KEY_PATH))
    }

    /// Returns the look-up for the client of an engine, which takes texts.
    pub(super) fn texts(&self) -> Arc<Variable> {
        let own = self.clone();
        Arc::new(move |name: &str| own.value(name)?.into_string().ok())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, lookup: _, home } = self;
        f.debug_struct("Variables").field("prefix", prefix).field("home", home).finish_non_exhaustive()
    }
}
