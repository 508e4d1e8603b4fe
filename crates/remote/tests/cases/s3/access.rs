//! Keys, tokens and what they may do.
#![expect(clippy::disallowed_methods, reason = "these tests write AWS's files")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ExclusiveCreate, RemoteError, RemoteObject};
use opkeep_remote::check::Access;
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::fake::{Fake, Then, answer, error, header};
use super::{KEYS, capabilities, client, client_with, name};
use crate::contract::{answers_of_all_calls, content, get, limits};
use crate::shared::refused_calls;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("s3/access/a wrong secret is refused and not shown", ServerKind::S3sFs, wrong_secret),
        trial("s3/access/a bucket that does not exist", ServerKind::Moto, missing_bucket),
        trial("s3/access/the documented policies suffice", ServerKind::Moto, documented),
        trial("s3/access/the bucket in the name of the host", ServerKind::Moto, virtual_host),
        Trial::test("s3/access/no credentials", no_credentials),
        Trial::test("s3/access/a session token is sent and signed", session_token),
        Trial::test("s3/access/expired credentials are read again once", expired),
        Trial::test("s3/access/what may not be read is absent", denied),
        Trial::test("s3/access/keys that are parts of the server's words change no meaning", word_like_keys),
        Trial::test("s3/access/the server's clock is used if it refuses ours", skewed),
    ]
}

/// The answers of all calls must be refusals with this text, and show no secret.
fn assert_refused(url: &str, variables: &[(&str, &str)], expected: &str) {
    let engine = client_with(url, variables);
    for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
        let Err(RemoteError::Refused { reason }) = &answer else { panic!("{call}: {answer:?}") };
        // The answer to `HEAD` has no text.
        assert!(reason.contains(expected), "{call}: {reason}");
        assert!(!reason.contains("hunter2") && !reason.contains("SKSKSKSK"), "{reason}");
    }
    let shown = format!("{} {:?}", engine.location(), super::options(variables));
    assert!(!shown.contains("hunter2") && !shown.contains("SKSKSKSK"), "{shown}");
}

fn wrong_secret(server: Server) -> Result<(), Failed> {
    let keys = [KEYS[0], ("AWS_SECRET_ACCESS_KEY", "hunter2")];
    assert_refused(&server.url(), &keys, "SignatureDoesNotMatch");
    Ok(())
}

fn missing_bucket(server: Server) -> Result<(), Failed> {
    let url = format!("s3://missing?endpoint=http://{}", server.address());
    assert_refused(&url, &KEYS, "NoSuchBucket");
    Ok(())
}

/// The manual's policies, with a server that enforces them. Without any one of their actions, something is refused.
fn documented(server: Server) -> Result<(), Failed> {
    const MANUAL: &str = include_str!("../../../../../docs/remote.md");
    let (_, after) = MANUAL.split_once("```json\n").unwrap();
    let producer = after.split_once("```").unwrap().0;
    let consumer = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::opkeep/cache/*"}]}"#;
    assert!(MANUAL.contains("| S3 | `s3:GetObject` on the objects |"));
    let without = |action: &str| producer.replace(action, "s3:GetBucketTagging");
    let actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"];
    let restricted = actions.map(without);
    let mut policies = vec![producer, consumer];
    policies.extend(restricted.iter().map(String::as_str));
    let users = server.restrict(&policies)?;
    let variables = |user: usize| {
        let (key, secret) = &users[user];
        [("AWS_ACCESS_KEY_ID", key.as_str()), ("AWS_SECRET_ACCESS_KEY", secret.as_str())]
    };
    let client_of = |user: usize| client_with(&server.url(), &variables(user));
    let refused = |user: usize| refused_calls(&*client_of(user), &capabilities());
    assert_eq!(refused(0), [""; 0]);
    let engine = client_of(0);
    engine.replace(&[RemoteObject::new(&name("a"), b"1")], &limits()).unwrap();
    assert_eq!(engine.capabilities(&limits()).unwrap().exclusive_create, ExclusiveCreate::Unproven);
    // A consumer finds what there is. What it may not list is missing.
    let consumer = client_of(1);
    assert_eq!(get(&*consumer, &[name("a"), name("b")]), Ok(vec![Some(b"1".to_vec()), None]));
    assert!(!refused(1).is_empty());
    let options = super::options(&variables(0));
    let report = opkeep_remote::check::check(&server.url(), &options, &Default::default())?;
    assert!(
        report.is_usable() && report.access == Access::ReadWrite && report.left.objects == 0,
        "{report:?}"
    );
    for (user, action) in (2..).zip(actions) {
        let engine = client_of(user);
        let is_needed = match action {
            // Without the right, what there is counts as missing.
            "s3:GetObject" => get(&*engine, &[name("a")]) == Ok(vec![None]),
            _ => !refused(user).is_empty(),
        };
        assert!(is_needed, "{action} is not needed");
    }
    Ok(())
}

/// The same objects by both styles. The server's address stands for the name that a resolver would give.
fn virtual_host(server: Server) -> Result<(), Failed> {
    let engine = client(&format!("{}&style=virtual", server.url()));
    let (names, bytes) = ([name("a/b"), name("c")], content(3000, 1));
    engine.replace(&[RemoteObject::new(&names[0], &bytes)], &limits()).unwrap();
    for engine in [&engine, &client(&server.url())] {
        assert_eq!(get(&**engine, &names), Ok(vec![Some(bytes.clone()), None]));
        let listing = engine.list("a/", "", &limits()).unwrap();
        assert_eq!(listing.objects.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["a/b"]);
    }
    Ok(())
}

fn no_credentials() -> Result<(), Failed> {
    // Nothing is sent without keys.
    assert_refused("s3://bucket?endpoint=http://127.0.0.1:1", &[], "AWS_ACCESS_KEY_ID");
    assert_refused("s3://bucket?endpoint=http://127.0.0.1:1&profile=team", &KEYS, "`team`");
    Ok(())
}

fn session_token() -> Result<(), Failed> {
    let fake = Fake::with(answer(200, "", "x"));
    let variables = [KEYS[0], KEYS[1], ("AWS_SESSION_TOKEN", "session+/=")];
    get(&*client_with(&fake.url(), &variables), &[name("a")]).unwrap();
    let head = &fake.heads()[0];
    assert_eq!(header(head, "x-amz-security-token"), Some("session+/="));
    assert!(header(head, "authorization").unwrap().contains(";x-amz-security-token,"), "{head}");
    get(&*client(&fake.url()), &[name("a")]).unwrap();
    assert_eq!(header(&fake.heads()[1], "x-amz-security-token"), None);
    Ok(())
}

fn expired() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("credentials");
    let write = |key: &str| {
        let text = format!(
            "[default]\naws_access_key_id={key}\naws_secret_access_key=SECRET\naws_session_token=TOKEN\n"
        );
        fs::write(&file, text)
    };
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&is_closed);
    let fake = Fake::start(move |head| {
        let is_old = header(head, "authorization").unwrap().contains("Credential=OLD/");
        let answer = match (is_old, closed.load(Ordering::SeqCst)) {
            (true, _) => error(400, "ExpiredToken", "The provided token OLD has expired."),
            (false, false) => answer(200, "", "x"),
            (false, true) => error(400, "InvalidRequest", "OLD is not NEW"),
        };
        (answer, Then::Keep)
    });
    write("OLD")?;
    let variables = [("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap())];
    let engine = client_with(&fake.url(), &variables);
    // The file still has the old key: one request, and the refusal.
    let answer = get(&*engine, &[name("a")]);
    let Err(RemoteError::Refused { reason }) = &answer else { panic!("{answer:?}") };
    assert!(reason.contains("ExpiredToken") && !reason.contains("OLD"), "{reason}");
    assert_eq!(fake.heads().len(), 1);
    write("NEW")?;
    assert_eq!(get(&*engine, &[name("a")]), Ok(vec![Some(b"x".to_vec())]));
    assert_eq!(fake.heads().len(), 3);
    assert_eq!(get(&*engine, &[name("a")]), Ok(vec![Some(b"x".to_vec())]));
    assert_eq!(fake.heads().len(), 4);
    // The server may name the old key later.
    is_closed.store(true, Ordering::SeqCst);
    let answer = get(&*engine, &[name("a")]);
    let Err(RemoteError::Refused { reason }) = &answer else { panic!("{answer:?}") };
    assert_eq!(reason, "HTTP 400 InvalidRequest: *** is not ***");
    // A server that refuses all keys is asked twice, and no more.
    let fake = Fake::with(error(403, "ExpiredToken", ""));
    let engine = client_with(&fake.url(), &variables);
    write("A")?;
    let first = get(&*engine, &[name("a")]);
    write("B")?;
    let second = get(&*engine, &[name("a")]);
    assert!(matches!((first, second), (Err(RemoteError::Refused { .. }), Err(RemoteError::Refused { .. }))));
    assert_eq!(fake.heads().len(), 3);
    Ok(())
}

/// Keys that are parts of the server's words change no meaning of them.
fn word_like_keys() -> Result<(), Failed> {
    for (id, secret) in [("x", "y"), ("NoSuchKey", "Such"), ("Error", "Code")] {
        let variables = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)];
        let missing = Fake::with(error(404, "NoSuchKey", "there is no such key"));
        assert_eq!(get(&*client_with(&missing.url(), &variables), &[name("a")]), Ok(vec![None]), "{id}");
        let full = Fake::with(error(400, "QuotaExceeded", "the quota of x"));
        let answer = client_with(&full.url(), &variables)
            .put_if_absent(&[RemoteObject::new(&name("a"), b"x")], &limits());
        let Err(RemoteError::Full { reason }) = &answer else { panic!("{answer:?}") };
        assert_eq!(reason.contains("the quota of ***"), id == "x", "{reason}");
    }
    Ok(())
}

/// A bucket that may not be listed, and whose objects may not be written.
fn denied() -> Result<(), Failed> {
    let engine = client(&Fake::with(error(403, "AccessDenied", "Access Denied")).url());
    assert_eq!(get(&*engine, &[name("a"), name("b")]), Ok(vec![None, None]));
    assert_eq!(engine.capabilities(&limits()).unwrap().exclusive_create, ExclusiveCreate::None);
    for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
        let is_reading = matches!(call, "get_many" | "renew" | "release");
        assert!(answer.is_ok() == is_reading, "{call}: {answer:?}");
        assert!(is_reading || matches!(answer, Err(RemoteError::Refused { .. })), "{call}: {answer:?}");
    }
    Ok(())
}

fn skewed() -> Result<(), Failed> {
    let fake = Fake::start(|head| match header(head, "x-amz-date").unwrap().starts_with("20401231T") {
        true => (answer(200, "", "x"), Then::Keep),
        false => {
            let body = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
            (answer(403, "Date: Mon, 31 Dec 2040 12:00:00 GMT\r\n", body), Then::Keep)
        }
    });
    let engine = client(&fake.url());
    for requests in [2, 3] {
        assert_eq!(get(&*engine, &[name("a")]), Ok(vec![Some(b"x".to_vec())]));
        assert_eq!(fake.heads().len(), requests);
    }
    Ok(())
}
