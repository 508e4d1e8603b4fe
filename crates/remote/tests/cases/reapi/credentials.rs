//! Headers by which a server knows its clients.
#![expect(clippy::disallowed_methods, reason = "these tests write files of headers")]

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{PutAnswer, RemoteEngine, RemoteError, RemoteObject};
use opkeep_remote::{HeaderSource, OpenOptions, open};
use opkeep_testkit::grpc::{field, fields, number, only};

use super::fake::Fake;
use super::http2::Reply;
use super::name;
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    let trials: [(&str, fn()); 7] = [
        ("headers are sent with each call", sent),
        ("a refusal has no part of a header", redacted),
        ("what a server says of one blob has no part of a header", redacted_blobs),
        ("what a server says at the end of a connection has no part of a header, and an end", redacted_end),
        ("a file of headers is read again once they are refused", renewed),
        ("what a server says of a token that was renewed has no part of it", redacted_after_renewal),
        ("a file of headers that cannot be read is an error", unreadable),
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

fn refused(answer: Result<(), RemoteError>) {
    match answer {
        Err(RemoteError::Refused { reason }) => {
            assert!(reason.contains("not allowed") && !reason.contains("hunter"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

fn redacted() {
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

fn redacted_blobs() {
    for failing in ["BatchUpdateBlobs", "BatchReadBlobs"] {
        let fake = Fake::with(move |method, messages| {
            let text = format!("not allowed: {} hunter2 hunter2", "x".repeat(285));
            let status = [number(1, 7), field(2, text.as_bytes())].concat();
            let is_update = failing == "BatchUpdateBlobs";
            let answer = |blob: &Vec<u8>| {
                let (digest, tag) = if is_update { (only(blob, 1), 2) } else { (blob.clone(), 3) };
                field(1, &[field(1, &digest), field(tag, &status)].concat())
            };
            let answers = || fields(&messages[0], 2).iter().flat_map(answer).collect();
            (method == failing).then(|| Reply::Messages(vec![answers()]))
        });
        refused(all_methods(&*client(&fake, given("authorization: Bearer hunter2"))));
        assert_eq!(fake.count(failing), 1);
    }
}

/// The frame by which a server ends a connection has a text of its own.
fn redacted_end() {
    const SECRET: &str = r#"hun"ter\2"#;
    for (code, is_long) in [(0, false), (1, false), (1, true), (11, true)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let text =
                    format!("too_many_calls {SECRET} {}", "x".repeat(if is_long { 10_000 } else { 0 }));
                let end = [&[0; 4], &u32::to_be_bytes(code)[..], text.as_bytes()].concat();
                let length = u32::to_be_bytes(end.len() as u32);
                let (settings, head) =
                    ([0, 0, 0, 4, 0, 0, 0, 0, 0], [&length[1..], &[7, 0, 0, 0, 0, 0]].concat());
                // The client may have left. It ends the connection.
                let _ = stream.write_all(&[&settings[..], &head, &end].concat());
                let _ = io::copy(&mut stream, &mut io::sink());
            }
        });
        let mut options = OpenOptions::default();
        options.headers = Some(given(&format!("x-key: {SECRET}")));
        match get(&*open(&url, &options).unwrap(), &[name("a")]) {
            Err(RemoteError::Unreachable { reason }) => {
                assert!(reason.contains("too_many_calls ***"), "{reason}");
                assert!(!reason.contains("hun") && reason.len() <= 300, "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

fn write(file: &Path, token: &str) {
    write_text(file, &format!("authorization: Bearer {token}\n"));
}

/// Writes a file that only this user can read.
fn write_text(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
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

/// A server, or a proxy before it, names tokens that the client has replaced, in the status of a call or of one blob.
fn redacted_after_renewal() {
    const TEXT: &str = "not allowed: Bearer hunter1, hunter2, hunter11";
    let failing = Arc::new(Mutex::new(""));
    let fails = Arc::clone(&failing);
    let fake = Fake::with(move |method, messages| {
        let status = [number(1, 7), field(2, TEXT.as_bytes())].concat();
        let failed = |blob: &Vec<u8>| field(1, &[field(1, blob), field(3, &status)].concat());
        let reply = || match method {
            "BatchReadBlobs" => {
                Reply::Messages(vec![fields(&messages[0], 2).iter().flat_map(failed).collect()])
            }
            _ => Reply::Status(7, TEXT),
        };
        (method == *fails.lock().unwrap()).then(reply)
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("headers");
    write(&file, "hunter1");
    fake.demand("authorization", "Bearer hunter1");
    let engine = client(&fake, HeaderSource::File(file.clone()));
    all_methods(&*engine).unwrap();
    for token in ["hunter11", "hunter2"] {
        fake.demand("authorization", &format!("Bearer {token}"));
        write(&file, token);
        all_methods(&*engine).unwrap();
    }
    for method in ["GetActionResult", "BatchReadBlobs"] {
        *failing.lock().unwrap() = method;
        refused(get(&*engine, &[name("of-1000")]).map(drop));
    }
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
    write_text(&file, "authorization Bearer hunter2");
    refused("line 1");
    // Others could have read it.
    write(&file, "hunter2");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    refused("mode 0644");
    assert_eq!(fake.count("GetCapabilities"), 0);
    write(&file, "hunter2");
    all_methods(&*engine).unwrap();
}
