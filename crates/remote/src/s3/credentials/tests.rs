#![expect(clippy::disallowed_methods, reason = "these tests write AWS's files")]

use std::fs;

use opkeep_cache::RemoteError;

use super::*;
use crate::renewable::{Renewable, redacted};

const FILES: [(&str, &str); 2] = [
    (
        "credentials",
        "[default]\naws_access_key_id=DEFAULT\naws_secret_access_key=secret1\n\
         [team]\naws_access_key_id=TEAM\naws_secret_access_key=secret2\naws_session_token=token2\n\
         [half]\naws_access_key_id=HALF\n[bad]\naws_access_key_id=a b\naws_secret_access_key=s\n",
    ),
    (
        "config",
        "[default]\nregion=eu-west-1\n[profile team]\nregion=ap-south-1\naws_access_key_id=NOT\naws_secret_access_key=x\n\
         [profile late]\naws_access_key_id=LATE\naws_secret_access_key=secret3\n[profile role]\nrole_arn=arn:x\n",
    ),
];

/// Sources with a home directory that has both files, and with these variables.
fn sources(home: &std::path::Path, variables: &[(&str, &str)], profile: Option<&str>) -> Sources {
    let directory = home.join(".aws");
    fs::create_dir_all(&directory).unwrap();
    for (name, text) in FILES {
        fs::write(directory.join(name), text).unwrap();
    }
    let home = ("HOME".to_owned(), home.to_str().unwrap().to_owned());
    let mut all: Vec<_> =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    all.push(home);
    let variable =
        move |name: &str| all.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
    Sources::new(Some(Arc::new(variable)), profile.map(str::to_owned))
}

/// The access key, the token and the region, or the error.
fn found(variables: &[(&str, &str)], profile: Option<&str>) -> (String, Option<String>, Option<String>) {
    let home = tempfile::tempdir().unwrap();
    let sources = sources(home.path(), variables, profile);
    match sources.keys() {
        Ok(keys) => (keys.access_key, keys.token.map(|token| token.reveal().to_owned()), sources.region()),
        Err(error) => (error, None, sources.region()),
    }
}

const ENVIRONMENT: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "VARIABLE"),
    ("AWS_SECRET_ACCESS_KEY", "secret0"),
    ("AWS_SESSION_TOKEN", "token0"),
];

#[test]
fn places_in_order() {
    let is = |found: (String, Option<String>, Option<String>),
              key: &str,
              token: Option<&str>,
              region: &str| {
        assert_eq!((found.0.as_str(), found.1.as_deref(), found.2.as_deref()), (key, token, Some(region)));
    };
    is(found(&ENVIRONMENT, None), "VARIABLE", Some("token0"), "eu-west-1");
    // The profile of the environment does not outrank its keys, that of the URL does.
    let with = |more: &[(&'static str, &'static str)]| [&ENVIRONMENT[..], more].concat();
    is(found(&with(&[("AWS_PROFILE", "team")]), None), "VARIABLE", Some("token0"), "ap-south-1");
    is(found(&ENVIRONMENT, Some("team")), "TEAM", Some("token2"), "ap-south-1");
    is(found(&[], None), "DEFAULT", None, "eu-west-1");
    is(found(&[("AWS_PROFILE", "team")], None), "TEAM", Some("token2"), "ap-south-1");
    is(found(&[("AWS_PROFILE", "team")], Some("default")), "DEFAULT", None, "eu-west-1");
    is(found(&[("AWS_REGION", "r1"), ("AWS_DEFAULT_REGION", "r2")], Some("late")), "LATE", None, "r1");
    is(found(&[("AWS_REGION", " "), ("AWS_DEFAULT_REGION", "r2")], None), "DEFAULT", None, "r2");
}

#[test]
fn files_of_variables_come_first() {
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("file");
    fs::write(&path, "[default]\naws_access_key_id=OTHER\naws_secret_access_key=s\n").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(found(&[("AWS_SHARED_CREDENTIALS_FILE", path)], None).0, "OTHER");
    let missing = [("AWS_SHARED_CREDENTIALS_FILE", "/missing/file"), ("AWS_CONFIG_FILE", path)];
    assert_eq!(found(&missing, None).0, "OTHER");
    let directory = [("AWS_SHARED_CREDENTIALS_FILE", other.path().to_str().unwrap())];
    assert!(found(&directory, None).0.contains(other.path().to_str().unwrap()));
}

#[test]
fn errors_name_what_is_missing_and_no_key() {
    for (variables, profile, expected) in [
        (&ENVIRONMENT[..1], None, "AWS_SECRET_ACCESS_KEY"),
        (&ENVIRONMENT[1..], None, "AWS_ACCESS_KEY_ID"),
        (&[], Some("missing"), "profile `missing`"),
        (&[], Some("half"), "aws_secret_access_key"),
        (&[], Some("role"), "`role_arn`"),
        (&[], Some("bad"), "profile `bad`"),
        (&[("AWS_ACCESS_KEY_ID", "a\r\nx: y"), ("AWS_SECRET_ACCESS_KEY", "s")], None, "the environment"),
        (&[("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"), ("AWS_PROFILE", "none")], None, "AWS_WEB_IDENTITY"),
    ] {
        let error = found(variables, profile).0;
        assert!(error.contains(expected), "{error}");
        for secret in ["VARIABLE", "secret", "token0", "HALF", "a b"] {
            assert!(!error.replace("aws_secret", "").contains(secret), "{error}");
        }
    }
}

#[test]
fn keys_are_read_again_once_they_expired() {
    let home = tempfile::tempdir().unwrap();
    let sources = sources(home.path(), &[], None);
    let credentials = Renewable::new(move || sources.keys());
    let first = credentials.get().unwrap();
    assert_eq!(credentials.renew(&first), Ok(None));
    let file = home.path().join(".aws/credentials");
    fs::write(&file, "[default]\naws_access_key_id=NEXT\naws_secret_access_key=s\n").unwrap();
    assert_eq!(credentials.get().unwrap(), first);
    let next = credentials.renew(&first).unwrap().unwrap();
    assert_eq!(next.access_key, "NEXT");
    assert_eq!(credentials.get().unwrap(), next);
    // A call that still had the old key gets what another read.
    fs::remove_file(&file).unwrap();
    assert_eq!(credentials.renew(&first), Ok(Some(next.clone())));
    assert!(matches!(credentials.renew(&next), Err(RemoteError::Refused { .. })));
}

#[test]
fn texts_of_servers_lose_keys() {
    let keys = checked("KEY".into(), "secret".into(), Some("token".into()), "").unwrap();
    assert_eq!(redacted("the KEY, its secret and token", keys.secrets()), "the ***, its *** and ***");
    assert!(!format!("{keys:?}").contains("secret"));
}
