//! Headers by which a server knows its clients.
#![expect(clippy::disallowed_methods, reason = "these tests write files of headers")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{PutAnswer, RemoteEngine, RemoteError, RemoteObject};
use opkeep_remote::{HeaderSource, OpenOptions, open};

use super::fake::Fake;
use super::http2::Reply;
use super::name;
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    let trials: [(&str, fn()); 4] = [
        ("headers are sent with each call", sent),
        ("a refusal has no part of a header", redacted),
        ("a file of headers is read again once they are refused", renewed),
        ("a file of headers that cannot be read is told", unreadable),
    ];
    let trial = |(name, run): (&str, fn())| {
        Trial::test(format!("reapi/credentials/{name}"), move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    trials.into_iter().map(trial).collect()
}

fn client(fake: &Fake, source: HeaderSource) -> Arc<dyn RemoteEngine> {
    let mut options = OpenOptions::default();
    options.headers = Some(source);
    assert!(!format!("{options:?}").contains("hunter"), "{options:?}");
    open(&fake.url(), &options).unwrap()
}

fn given(text: &str) -> HeaderSource {
    HeaderSource::Given(text.parse().unwrap())
}

/// Makes calls of all methods.
fn all_methods(engine: &dyn RemoteEngine) -> Result<(), RemoteError> {
    for size in [1000, 6 << 20] {
        let (name, content) = (name(&format!("of-{size}")), content(size, 1));
        let objects = [RemoteObject::new(&name, &content)];
        let answers = engine.put_if_absent(&objects, &limits())?;
        assert!(matches!(answers[..], [PutAnswer::Stored | PutAnswer::Existed]));
        engine.replace(&objects, &limits())?;
        assert!(get(engine, &[name])? == [Some(content)]);
    }
    Ok(())
}

fn sent() {
    for (name, value, text) in [
        ("x-buildbuddy-api-key", "hunter2", "X-BuildBuddy-API-Key: hunter2"),
        ("authorization", "Bearer hunter2", "# a comment\nx-other: 1\n\nauthorization:Bearer hunter2\n"),
    ] {
        let fake = Fake::start();
        fake.demand(name, value);
        all_methods(&*client(&fake, given(text))).unwrap();
        assert!(fake.count("Write") > 0 && fake.count("Read") > 0);
    }
}

fn redacted() {
    let refused = |answer: Result<(), RemoteError>| match answer {
        Err(RemoteError::Refused { reason }) => {
            assert!(reason.contains("not allowed") && !reason.contains("hunter"), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    let fake = Fake::start();
    fake.demand("authorization", "Bearer something");
    for text in ["authorization: Bearer hunter2", "authorization: hunter2", "x-key: hunter2"] {
        refused(all_methods(&*client(&fake, given(text))));
    }
    // Also what comes after an answer, and before the limit of a message's length.
    let long = format!("not allowed: {} hunter2 hunter2", "x".repeat(285));
    let fake = Fake::with(move |method, _| {
        let status = vec![("grpc-status", "7".to_owned()), ("grpc-message", long.clone())];
        (method == "GetActionResult").then(|| Reply::Trailers(Vec::new(), status))
    });
    refused(all_methods(&*client(&fake, given("authorization: Bearer hunter2"))));
}

fn write(file: &Path, token: &str) {
    fs::write(file, format!("authorization: Bearer {token}\n")).unwrap();
}

fn renewed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("headers");
    write(&file, "hunter1");
    let fake = Fake::start();
    fake.demand("authorization", "Bearer hunter1");
    let engine = client(&fake, HeaderSource::File(file.clone()));
    all_methods(&*engine).unwrap();
    // The token expires while nothing is in progress; then the file has a new one, with which many calls are made again.
    let names: Vec<_> = (0..100).map(|number| name(&format!("{number}"))).collect();
    for token in ["hunter2", "hunter3"] {
        fake.demand("authorization", &format!("Bearer {token}"));
        match get(&*engine, &names[..1]) {
            Err(RemoteError::Refused { reason }) => assert!(!reason.contains("hunter"), "{reason}"),
            other => panic!("{other:?}"),
        }
        write(&file, token);
        assert_eq!(get(&*engine, &names), Ok(vec![None; 100]));
    }
    all_methods(&*engine).unwrap();
}

fn unreadable() {
    let fake = Fake::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("headers");
    let engine = client(&fake, HeaderSource::File(file.clone()));
    let refused = |expected: &str| match get(&*engine, &[name("a")]) {
        Err(RemoteError::Refused { reason }) => {
            assert!(reason.contains("headers`") && reason.contains(expected), "{reason}");
            assert!(!reason.contains("hunter"), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    refused("No such file");
    fs::write(&file, "authorization Bearer hunter2").unwrap();
    refused("line 1");
    assert_eq!(fake.count("GetCapabilities"), 0);
    write(&file, "hunter2");
    all_methods(&*engine).unwrap();
}
