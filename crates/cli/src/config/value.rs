//! The values of settings, and where each is from.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checks::is_secret_key;
use super::table::{Kind, Setting};

/// The layer of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The file that the user names, in place of the others.
    Named,
    /// The file of the project.
    Project,
    /// The file of the user.
    User,
    /// The file of the system.
    System,
}

impl Layer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Project => "project",
            Self::User => "user",
            Self::System => "system",
        }
    }
}

/// A place in a file: the line and the column from 1, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Arc<Path>,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Variable(&'static str),
    File(Layer, Place),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::File(_, place) => place.fmt(f),
        }
    }
}

/// A value of a setting. Its texts may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value {
    /// One text, or those of a list.
    pub(crate) texts: Vec<OsString>,
    pub(crate) origin: Origin,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Value {
    /// Returns the value that a variable has.
    pub(super) fn of_variable(setting: &Setting, name: &'static str, value: OsString) -> Self {
        let texts = match setting.kind {
            Kind::Paths => {
                let paths = std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty());
                paths.map(PathBuf::into_os_string).collect()
            }
            Kind::Wholes => {
                let texts = value.to_string_lossy();
                texts.split([',', ' ']).filter(|text| !text.is_empty()).map(OsString::from).collect()
            }
            _ => vec![value],
        };
        Self { texts, origin: Origin::Variable(name) }
    }

    /// Returns the place of the value, if it is in a file.
    pub(crate) fn place(&self) -> Option<&Place> {
        match &self.origin {
            Origin::File(_, place) => Some(place),
            Origin::Variable(_) => None,
        }
    }

    /// Whether the value is in a file.
    pub(crate) fn is_in_file(&self) -> bool {
        self.place().is_some()
    }

    /// Returns the only text. Texts of a list are joined by spaces, as public keys are.
    pub(crate) fn text(&self) -> OsString {
        self.texts.join(OsStr::new(" "))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.text().into()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.texts.iter().map(PathBuf::from)
    }

    /// Returns the texts for people, without passwords and secret keys.
    pub(crate) fn shown(&self, setting: &Setting) -> Vec<String> {
        let shown = |text: &OsString| shown(setting, &text.to_string_lossy());
        self.texts.iter().map(shown).collect()
    }
}

/// Returns a text of a setting for people, without passwords and secret keys.
pub(super) fn shown(setting: &Setting, text: &str) -> String {
    // A URL may be written where it does not belong.
    if setting.kind == Kind::Url || text.contains("://") {
        without_secrets(text)
    } else if text.split_whitespace().any(is_secret_key) {
        "(a secret key)".to_owned()
    } else {
        text.to_owned()
    }
}

/// Returns the start and the end of the password in a URL.
fn password(url: &str) -> Option<(usize, usize)> {
    let begin = url.find("://").map_or(0, |at| at + 3);
    // A password may contain any letter if it is written wrongly, so the last `@` counts.
    let end = begin + url[begin..].rfind('@')?;
    let colon = begin + url[begin..end].find(':')?;
    (colon + 1 < end).then_some((colon + 1, end))
}

/// Whether a URL has a password or another secret.
pub(super) fn has_password(url: &str) -> bool {
    without_secrets(url) != url
}

/// Names of parameters of a URL that contain one of these have secrets as values.
const SECRETS: [&str; 6] = ["pass", "secret", "token", "auth", "credential", "access_key"];

/// Returns a URL without its password, without secrets among its parameters, and without a fragment, which no engine has.
fn without_secrets(url: &str) -> String {
    let url = without_password(url);
    let (url, fragment) = url.split_once('#').map_or((url.as_str(), ""), |(url, _)| (url, "#***"));
    let Some((base, query)) = url.split_once('?') else { return format!("{url}{fragment}") };
    let masked = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if SECRETS.iter().any(|secret| name.to_lowercase().contains(secret)) => {
            format!("{name}=***")
        }
        _ => parameter.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(masked).collect();
    format!("{base}?{}{fragment}", query.join("&"))
}

fn without_password(url: &str) -> String {
    match password(url) {
        Some((begin, end)) => format!("{}***{}", &url[..begin], &url[end..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, expected) in [
            ("redis://host", "redis://host"),
            ("redis://user@host:1/0", "redis://user@host:1/0"),
            ("redis://user:s3cret@host:1/0", "redis://user:***@host:1/0"),
            ("redis://:s3cret@host", "redis://:***@host"),
            ("rediss://u:s3@cr/et@host", "rediss://u:***@host"),
            ("u:s3cret@host", "u:***@host"),
            ("redis://u:@host", "redis://u:@host"),
            ("s3://bucket/a?endpoint=http://host:9000", "s3://bucket/a?endpoint=http://host:9000"),
            ("s3://b?endpoint=http://u:s3cret@host", "s3://b?endpoint=http:***@host"),
            ("redis://h?password=s3cret&prefix=a", "redis://h?password=***&prefix=a"),
            ("s3://b?Secret_Access_Key=s3cret", "s3://b?Secret_Access_Key=***"),
            ("redis://h/0#s3cret", "redis://h/0#***"),
        ] {
            assert_eq!(without_secrets(url), expected);
            assert_eq!(has_password(url), expected.contains("***"), "{url}");
        }
    }
}
