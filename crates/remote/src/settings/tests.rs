//! Settings that are unset come from variables, and messages name the origin and no secret.

#![expect(clippy::disallowed_methods, reason = "tests read and write files as people do")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use opkeep_cache::{CacheConfig, RemotePolicy};
use opkeep_fs::Fs;
use opkeep_trust::SigningKey;

use super::{RemoteSettings, SettingText, SettingsError, Variables};
use crate::options::{HeaderSource, OpenOptions};

const PASSWORD: &str = "s3cret";

fn variables(values: &[(&str, &str)]) -> Variables {
    let values: BTreeMap<String, OsString> =
        values.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
    Variables::new("X", Arc::new(move |name: &str| values.get(name).cloned()))
}

fn text(value: &str) -> Option<SettingText> {
    Some(SettingText::new(value, "here"))
}

fn error<T>(result: Result<T, SettingsError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn what_is_unset_comes_from_variables() {
    let all = variables(&[
        ("X_REMOTE", "redis://variable"),
        ("X_REMOTE_MODE", "read"),
        ("X_REMOTE_NAMESPACE", "team"),
        ("X_SIGN_KEY", "key"),
        ("X_TRUSTED_KEYS", "@list"),
        ("XDG_STATE_HOME", "/state"),
        ("AWS_REGION", "north"),
    ]);
    let set = RemoteSettings::default().or_variables(&all);
    assert_eq!(set.url, Some(SettingText::new("redis://variable", "X_REMOTE")));
    assert_eq!((set.policy().unwrap(), set.namespace().unwrap().as_str()), (RemotePolicy::Read, "team"));
    assert_eq!(set.sign_key, Some(SettingText::new("key", "X_SIGN_KEY")));
    assert_eq!(set.trusted_keys, Some(SettingText::new("@list", "X_TRUSTED_KEYS")));
    assert_eq!(set.host_key_file.as_deref(), Some(Path::new("/state/opkeep/host-key")));
    assert_eq!(set.options.variable.unwrap()("AWS_REGION").as_deref(), Some("north"));

    let mut named = RemoteSettings::default();
    (named.url, named.mode, named.namespace) = (text("redis://here"), text("read-write"), text("own"));
    let named = named.or_variables(&all);
    assert_eq!((named.url.clone(), named.policy().unwrap()), (text("redis://here"), RemotePolicy::ReadWrite));
    let remote = named.remote().unwrap().unwrap();
    assert_eq!((remote.namespace.as_str(), remote.engine.location()), ("own", "redis://here:6379/0"));
}

#[test]
fn an_empty_url_is_unset_and_no_setting_is_no_cache() {
    let empty = variables(&[("X_REMOTE", "")]);
    let settings = RemoteSettings::default().or_variables(&empty);
    assert!(settings.remote().unwrap().is_none());
    let trust = settings.trust().unwrap();
    assert!(trust.policy.trusted_keys().is_none() && trust.signing_key.is_none());
    assert_eq!(settings.host_key_file, None);
    // The mode decides before the URL is looked at.
    let mut off = RemoteSettings::default();
    (off.url, off.mode) = (text("nothing"), text("off"));
    assert!(off.remote().unwrap().is_none());
}

/// `export X_TRUSTED_KEYS=$KEYS` in a script without `KEYS` must not turn the verification off.
#[test]
fn an_empty_variable_of_trusted_keys_is_an_error() {
    for value in ["", " "] {
        let settings = RemoteSettings::default().or_variables(&variables(&[("X_TRUSTED_KEYS", value)]));
        for message in [error(settings.signature_policy()), error(settings.trust())] {
            assert!(message.starts_with("X_TRUSTED_KEYS: there is no key"), "{message}");
            assert!(message.ends_with("it must not be set"), "{message}");
        }
    }
    let unset = RemoteSettings::default().or_variables(&variables(&[]));
    assert!(unset.trust().unwrap().policy.trusted_keys().is_none());
}

/// Each of them would otherwise mean less protection, or another part of the engine, than the script states.
#[test]
fn any_other_empty_variable_is_an_error() {
    for name in [
        "REMOTE_MODE",
        "REMOTE_NAMESPACE",
        "REMOTE_HEADERS",
        "REMOTE_HEADERS_FILE",
        "REMOTE_TLS_CA",
        "REMOTE_TLS_CERTIFICATE",
        "SIGN_KEY",
        "TRUSTED_KEYS",
    ] {
        let name = format!("X_{name}");
        let settings =
            RemoteSettings::default().or_variables(&variables(&[("X_REMOTE", "redis://host"), (&name, "")]));
        let message = error(settings.apply(&mut CacheConfig::default()));
        assert!(message.starts_with(&name), "{name}: {message}");
    }
    let key = [("X_REMOTE", "redis://host"), ("X_REMOTE_TLS_CERTIFICATE", "file"), ("X_REMOTE_TLS_KEY", "")];
    let message = error(RemoteSettings::default().or_variables(&variables(&key)).remote());
    assert_eq!(message, "X_REMOTE_TLS_KEY is empty; expected a value, or that it is not set");
}

#[test]
fn the_host_key_is_in_the_state_of_the_user() {
    let file = |variables: &Variables| RemoteSettings::default().or_variables(variables).host_key_file;
    let home = variables(&[("XDG_STATE_HOME", "relative"), ("HOME", "/home/one")]);
    assert_eq!(file(&home).as_deref(), Some(Path::new("/home/one/.local/state/opkeep/host-key")));
    let system = variables(&[]).with_home(Some("/home/two".into()));
    assert_eq!(file(&system).as_deref(), Some(Path::new("/home/two/.local/state/opkeep/host-key")));
    assert_eq!(file(&variables(&[]).with_home(Some("relative".into()))), None);
}

#[test]
fn messages_name_the_origin_and_no_secret() {
    let url = format!("redis://user:{PASSWORD}@host:port");
    let mut settings = RemoteSettings { url: text(&url), ..RemoteSettings::default() };
    let message = error(settings.remote());
    assert!(message.starts_with("here: the `redis://` URL") && !message.contains(PASSWORD), "{message}");
    assert!(!format!("{settings:?}").contains(PASSWORD));

    settings.mode = text("all");
    assert_eq!(error(settings.remote()), "here is `all`: expected off, read or read-write");
    (settings.mode, settings.namespace) = (None, text("a/b"));
    assert!(error(settings.remote()).starts_with("here is `a/b`: "));
    assert!(error(settings.trust()).starts_with("here is `a/b`: "));
    settings.namespace = Some(SettingText::new(OsString::from_vec(vec![0xff]), "here"));
    assert_eq!(error(settings.namespace()), "here is not UTF-8");
}

#[test]
fn headers_and_certificates_become_options() {
    let all = variables(&[
        ("X_REMOTE_HEADERS", "authorization: Bearer s3cret"),
        ("X_REMOTE_TLS_CA", "ca.pem"),
        ("X_REMOTE_TLS_CERTIFICATE", "client.pem"),
    ]);
    let settings = RemoteSettings::default().or_variables(&all);
    assert!(!format!("{settings:?}").contains(PASSWORD));
    let options = settings.open_options().unwrap();
    assert_eq!(options.authorities.as_deref(), Some(Path::new("ca.pem")));
    let files = |options: &OpenOptions| {
        options.client_certificate.clone().map(|files| (files.certificate, files.key))
    };
    assert_eq!(files(&options), Some(("client.pem".into(), "client.pem".into())));
    assert!(matches!(options.headers, Some(HeaderSource::Given(_))));
    assert!(!format!("{options:?}").contains(PASSWORD));

    // What is named outranks the variables of the same kind, all of them.
    let mut named = RemoteSettings { headers_file: text("headers"), ..RemoteSettings::default() };
    (named.tls_certificate, named.tls_key) = (text("own.pem"), text("own.key"));
    let options = named.or_variables(&all).open_options().unwrap();
    assert_eq!(options.headers, Some(HeaderSource::File("headers".into())));
    assert_eq!(files(&options), Some(("own.pem".into(), "own.key".into())));

    let mut settings = RemoteSettings { headers: text("Bearer s3cret"), ..RemoteSettings::default() };
    settings.url = text("grpcs://host:1");
    let message = error(settings.engine());
    assert!(message.starts_with("here: line 1 of the headers") && !message.contains(PASSWORD), "{message}");
    settings.headers_file = text("file");
    assert_eq!(error(settings.engine()), "here and here are both set, expected one");
    (settings.headers, settings.tls_key) = (None, text("key"));
    assert!(error(settings.engine()).starts_with("here is set, and there is no certificate"));
}

#[test]
fn keys_are_read_and_a_secret_is_in_no_message() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, list) = (dir.path().join("secret"), dir.path().join("list"));
    let key = SigningKey::generate("builds-1".parse().unwrap()).unwrap();
    key.write_new(&Fs::new(), &secret).unwrap();
    let public = key.public_key().to_string();
    std::fs::write(&list, format!("# keys\n{public}\n")).unwrap();

    for trusted in [public.clone(), format!("@{}", list.display())] {
        let settings = RemoteSettings {
            sign_key: Some(SettingText::new(&secret, "here")),
            trusted_keys: text(&trusted),
            ..RemoteSettings::default()
        };
        let mut config = CacheConfig::default();
        settings.apply(&mut config).unwrap();
        assert_eq!(config.trust.signing_key.unwrap().public_key(), key.public_key());
        assert_eq!(config.trust.policy.trusted_keys().unwrap().len(), 1);
        assert_eq!(config.trust.namespace.unwrap().as_str(), "default");
    }
    let content = std::fs::read_to_string(&secret).unwrap();
    let mut settings = RemoteSettings { sign_key: text(content.trim()), ..RemoteSettings::default() };
    let message = error(settings.trust());
    assert!(message.starts_with("here: this is the text of a secret key"), "{message}");
    settings.sign_key = text("/nowhere");
    assert!(error(settings.trust()).starts_with("here: cannot read `/nowhere`"));
    settings.sign_key = None;
    for (text_of_keys, problem) in [
        ("", "here: there is no key"),
        ("# none", "here: there is no key"),
        ("notes", "here: line 1: expected NAME:BASE64"),
        (
            "builds.pub",
            "here: line 1: expected NAME:BASE64, found no `:`; the name of a file with a list of keys begins with `@`",
        ),
        (content.trim(), "here: line 1: expected a public key of 32 bytes"),
    ] {
        settings.trusted_keys = text(text_of_keys);
        let message = error(settings.trust());
        assert!(message.starts_with(problem) && !message.contains(content.trim()), "{message}");
    }
}

#[cfg(feature = "grpc")]
#[test]
fn headers_go_unencrypted_to_this_host_only() {
    for (url, is_open) in [
        ("grpc://127.0.0.1:9092", true),
        ("grpc://localhost:9092", true),
        ("grpc://[::1]:9092", true),
        ("grpcs://cache.example:9092", cfg!(feature = "tls")),
        ("grpc://cache.example:9092", false),
        ("grpc://10.0.0.1:9092", false),
        ("grpc://localhost.example:9092", false),
    ] {
        let mut settings = RemoteSettings { url: text(url), ..RemoteSettings::default() };
        assert!(settings.engine().is_ok() || url.starts_with("grpcs"), "{url}");
        settings.headers = text("authorization: Bearer s3cret");
        assert_eq!(settings.engine().is_ok(), is_open, "{url}");
        if url == "grpc://cache.example:9092" {
            let message = error(settings.engine());
            assert!(message.starts_with("here: headers") && !message.contains(PASSWORD), "{message}");
        }
    }
}
