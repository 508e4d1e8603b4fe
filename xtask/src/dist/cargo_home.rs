//! A directory of cargo's own for builds of archives, and the settings that builds must not have: those of the user could change
//! what is built.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::environment::variable;
use crate::disk;

/// The tables of a user's settings that say where packages are from.
const KEPT: [&str; 5] = ["http", "net", "registries", "registry", "source"];

/// The names of a file of settings.
const NAMES: [&str; 2] = ["config.toml", "config"];

/// Returns the user's own.
pub(super) fn of_user() -> Result<PathBuf, String> {
    let named = variable("CARGO_HOME").map(PathBuf::from);
    named
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cargo")))
        .ok_or_else(|| "neither `CARGO_HOME` nor `HOME` is set".to_owned())
}

/// Makes cargo's directory `to`, with the packages that the one of the user has, and the settings that say where packages are from.
pub(super) fn prepare(user: &Path, to: &Path) -> Result<(), String> {
    for name in ["registry/cache", "registry/index"] {
        let (from, to) = (user.join(name), to.join(name));
        if from.exists() && !to.exists() {
            disk::create_directory(to.parent().unwrap_or(&to))?;
            disk::copy(&from, &to)?;
        }
    }
    let mut settings = String::new();
    for name in NAMES {
        if let Some(text) = disk::text_if_exists(user, name)? {
            settings = kept(&text).map_err(|error| format!("`{}`: {error}", user.join(name).display()))?;
            break;
        }
    }
    disk::write_bytes(&to.join("config.toml"), settings.as_bytes())
}

/// Returns the settings that stay.
fn kept(settings: &str) -> Result<String, String> {
    let table = DeTable::parse(settings).map_err(|error| error.to_string())?;
    let entries = table.get_ref().iter().filter(|(key, _)| KEPT.contains(&key.get_ref().as_ref()));
    entries
        .map(|(key, value)| Ok(format!("{} = {}\n", quoted(key.get_ref()), inline(value.get_ref())?)))
        .collect()
}

/// Returns a value on one line.
fn inline(value: &DeValue<'_>) -> Result<String, String> {
    Ok(match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Array(values) => {
            let values: Result<Vec<String>, String> =
                values.iter().map(|value| inline(value.get_ref())).collect();
            format!("[{}]", values?.join(", "))
        }
        DeValue::Table(table) => {
            let entry =
                |(key, value): (&toml::Spanned<toml::de::DeString<'_>>, &toml::Spanned<DeValue<'_>>)| {
                    Ok(format!("{} = {}", quoted(key.get_ref()), inline(value.get_ref())?))
                };
            let entries: Result<Vec<String>, String> = table.iter().map(entry).collect();
            format!("{{ {} }}", entries?.join(", "))
        }
        _ => return Err("expected texts, whole numbers, truth values, lists and tables".to_owned()),
    })
}

/// Returns a text as TOML has it, which is as JSON has it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Fails if cargo would read settings in a directory above the sources that are not those of the commit.
pub(super) fn check_above(source: &Path) -> Result<(), String> {
    let own = settings_in(source)?.map(|(_, text)| text).unwrap_or_default();
    for directory in source.ancestors().skip(1) {
        if let Some((path, _)) = settings_in(directory)?.filter(|(_, text)| *text != own) {
            return Err(format!(
                "cargo reads the settings `{}` above the directory in which archives are built, and they are not \
                 those of the commit; commit them, or make the archives in another clone",
                path.display()
            ));
        }
    }
    Ok(())
}

fn settings_in(directory: &Path) -> Result<Option<(PathBuf, String)>, String> {
    let directory = directory.join(".cargo");
    for name in NAMES {
        if let Some(text) = disk::text_if_exists(&directory, name)? {
            return Ok(Some((directory.join(name), text)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_about_registries_stay() {
        let settings = "\
            [build]\nrustflags = [\"-Cpanic=abort\"]\nrustc-wrapper = \"x\"\n[profile.dist]\nopt-level = 0\n\
            [env]\nCFLAGS = \"-g\"\n[patch.crates-io]\nzstd = { path = \"/x\" }\n\
            [source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://a/\\\"b/\"\n\
            [net]\nretry = 3\noffline = false\n";
        let kept = kept(settings).unwrap();
        let table = DeTable::parse(&kept).unwrap();
        let keys: Vec<&str> = table.get_ref().keys().map(|key| key.get_ref().as_ref()).collect();
        assert_eq!(keys, ["net", "source"]);
        let at = |path: &[&str]| {
            let first = table.get_ref().get(path[0]).unwrap();
            path[1..].iter().fold(first, |value, key| value.get_ref().get(*key).unwrap()).get_ref()
        };
        assert_eq!(at(&["source", "crates-io", "replace-with"]).as_str(), Some("mirror"));
        assert_eq!(at(&["source", "mirror", "registry"]).as_str(), Some("sparse+https://a/\"b/"));
        assert_eq!(at(&["net", "offline"]).as_bool(), Some(false));
    }

    #[test]
    fn settings_above_the_sources_are_those_of_the_commit() {
        let root = std::env::temp_dir().join(format!("opkeep-settings-{}", std::process::id()));
        let source = root.join("a/source");
        let write = |directory: &Path, text: &str| {
            disk::write_bytes(&directory.join(".cargo/config.toml"), text.as_bytes()).unwrap();
        };
        write(&source, "[alias]\n");
        assert_eq!(check_above(&source), Ok(()));
        write(&root, "[alias]\n");
        assert_eq!(check_above(&source), Ok(()));
        write(&root, "[profile.dist]\nopt-level = 0\n");
        let error = check_above(&source).unwrap_err();
        disk::remove(&root).unwrap();
        assert!(error.contains("config.toml` above the directory"), "{error}");
    }

    #[test]
    fn packages_of_the_user_are_there_and_settings_are_not() {
        let root = std::env::temp_dir().join(format!("opkeep-cargo-home-{}", std::process::id()));
        let (user, to) = (root.join("user"), root.join("to"));
        disk::write_bytes(&user.join("registry/cache/index/a.crate"), b"a").unwrap();
        disk::write_bytes(&user.join("config.toml"), b"[build]\nrustflags = [\"-g\"]\n").unwrap();
        prepare(&user, &to).unwrap();
        prepare(&user, &to).unwrap();
        let (names, settings) = (disk::names(&to), disk::bytes(&to, "config.toml"));
        let package = disk::bytes(&to, "registry/cache/index/a.crate");
        disk::remove(&root).unwrap();
        assert_eq!(
            (names.unwrap(), settings.unwrap()),
            (vec!["config.toml".to_owned(), "registry".to_owned()], vec![])
        );
        assert_eq!(package.unwrap(), b"a");
    }
}
