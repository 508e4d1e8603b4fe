//! What servers and proxies do that differ from the ones that are tested here, each of which the API or gRPC allows.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{PutAnswer, RemoteEngine, RemoteError, RemoteObject};
use opkeep_testkit::grpc::{field, fields, number, only};

use super::fake::{Fake, capabilities, digest};
use super::http2::Reply;
use super::{client, name};
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    let trials: [(&str, fn()); 11] = [
        ("requests name the digest function", digest_function),
        ("a server without SHA-256 is one clear refusal", other_digest_function),
        ("an instance with slashes", instance),
        ("a batch that is refused for one evicted blob", refused_batch),
        ("a server without batches", no_batches),
        ("a blob that is evicted between two calls", evicted_meanwhile),
        ("a proxy that ends connections after some calls", ended_connections),
        ("a connection that ends in the middle", aborted),
        ("a time to try again", retry_info),
        ("large metadata", metadata),
        ("a proxy that speaks HTTP/1", http1),
    ];
    let trial = |(name, run): (&str, fn())| {
        Trial::test(format!("reapi/other_servers/{name}"), move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    trials.into_iter().map(trial).collect()
}

fn put_all(engine: &dyn RemoteEngine, sizes: &[usize]) -> Result<Vec<PutAnswer>, RemoteError> {
    let names: Vec<_> = (0..sizes.len()).map(|number| name(&format!("{number}"))).collect();
    let contents: Vec<_> = sizes.iter().zip(1..).map(|(size, seed)| content(*size, seed)).collect();
    let objects: Vec<_> =
        names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
    engine.put_if_absent(&objects, &limits())
}

/// Requests the objects of [`put_all`]. Those with these numbers are missing.
fn get_all(engine: &dyn RemoteEngine, sizes: &[usize], missing: &[usize]) {
    let names: Vec<_> = (0..sizes.len()).map(|number| name(&format!("{number}"))).collect();
    let found = get(engine, &names).unwrap();
    for (index, (found, size)) in found.into_iter().zip(sizes).enumerate() {
        let expected = (!missing.contains(&index)).then(|| content(*size, index as u8 + 1));
        assert!(found == expected, "{index}");
    }
}

fn digest_function() {
    const FIELDS: [(&str, u64); 5] = [
        ("GetActionResult", 6),
        ("UpdateActionResult", 5),
        ("FindMissingBlobs", 3),
        ("BatchUpdateBlobs", 5),
        ("BatchReadBlobs", 4),
    ];
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_hook = seen.clone();
    let fake = Fake::with(move |method, messages| {
        if let Some((method, tag)) = FIELDS.into_iter().find(|(known, _)| *known == method) {
            // The field is the last one of the message.
            assert!(messages[0].ends_with(&number(tag, 1)), "{method}");
            of_hook.lock().unwrap().push(method);
        }
        None
    });
    let engine = client(&fake.url());
    put_all(&*engine, &[10, 20]).unwrap();
    get_all(&*engine, &[10, 20], &[]);
    let seen = seen.lock().unwrap();
    assert!(FIELDS.iter().all(|(method, _)| seen.contains(method)), "{seen:?}");
}

fn other_digest_function() {
    // BLAKE3, whose digests have the same length.
    let fake = Fake::with(|method, _| (method == "GetCapabilities").then(|| capabilities(9, 0, true)));
    let engine = client(&fake.url());
    let answers = [
        engine.capabilities(&limits()).map(drop),
        get(&*engine, &[name("a")]).map(drop),
        put_all(&*engine, &[1]).map(drop),
    ];
    for answer in answers {
        match answer {
            Err(RemoteError::Refused { reason }) => {
                assert!(reason.contains("does not have SHA-256") && reason.contains("BLAKE3"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fake.content(|content| content.calls.len()), fake.count("GetCapabilities"));
}

fn instance() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let of_hook = names.clone();
    let fake = Fake::with(move |method, messages| {
        let name = String::from_utf8(only(&messages[0], 1)).unwrap();
        of_hook.lock().unwrap().push((method.to_owned(), name));
        None
    });
    let engine = client(&format!("{}/team/a/main", fake.url()));
    let sizes = [10, 6 << 20];
    put_all(&*engine, &sizes).unwrap();
    get_all(&*engine, &sizes, &[]);
    for (method, name) in names.lock().unwrap().iter() {
        match method.as_str() {
            "Read" => assert!(name.starts_with("team/a/main/blobs/"), "{name}"),
            "Write" => assert!(name.starts_with("team/a/main/uploads/"), "{name}"),
            _ => assert_eq!(name, "team/a/main", "{method}"),
        }
    }
    assert!(fake.count("Read") == 1 && fake.count("Write") == 1);
}

/// The API lets a server say of each blob that it has none; some fail the call.
fn refused_batch() {
    let sizes = [10, 20, 30];
    let evicted = digest(&content(20, 2));
    let fake = Fake::with(move |method, messages| {
        let has_evicted = || fields(&messages[0], 2).contains(&evicted);
        (method == "BatchReadBlobs" && has_evicted()).then_some(Reply::Status(5, "no such blob"))
    });
    let engine = client(&fake.url());
    put_all(&*engine, &sizes).unwrap();
    fake.content(|stored| stored.blobs.remove(&digest(&content(20, 2))).unwrap());
    get_all(&*engine, &sizes, &[1]);
}

fn no_batches() {
    let fake =
        Fake::with(|method, _| method.starts_with("Batch").then_some(Reply::Status(12, "no such method")));
    let engine = client(&fake.url());
    let sizes = [0, 10, 300 << 10];
    assert_eq!(put_all(&*engine, &sizes), Ok(vec![PutAnswer::Stored; 3]));
    get_all(&*engine, &sizes, &[]);
}

/// The server says that it has all blobs, and then stores no result since it has not.
fn evicted_meanwhile() {
    for code in [9, 5] {
        let is_evicted = Arc::new(AtomicBool::new(true));
        let flag = is_evicted.clone();
        let fake = Fake::with(move |method, _| match method {
            "FindMissingBlobs" => Some(Reply::Messages(vec![Vec::new()])),
            "BatchUpdateBlobs" => {
                flag.store(false, Ordering::SeqCst);
                None
            }
            "UpdateActionResult" if flag.load(Ordering::SeqCst) => Some(Reply::Status(code, "no such blob")),
            _ => None,
        });
        let engine = client(&fake.url());
        assert_eq!(put_all(&*engine, &[10, 20]), Ok(vec![PutAnswer::Stored; 2]));
        get_all(&*engine, &[10, 20], &[]);
        // A server that never takes it is asked twice, no more.
        let fake = Fake::with(move |method, _| {
            (method == "UpdateActionResult").then_some(Reply::Status(code, "no such blob"))
        });
        let answer = put_all(&*client(&fake.url()), &[10]);
        assert!(
            matches!(&answer, Err(RemoteError::Refused { reason }) if reason.contains("no such blob")),
            "{answer:?}"
        );
        assert_eq!(fake.count("UpdateActionResult"), 2);
    }
}

/// Proxies have a limit for the calls over one connection: a thousand, by default. More calls than that need several.
fn ended_connections() {
    let calls = AtomicUsize::new(0);
    let fake = Fake::with(move |method, _| {
        let is_last = method == "GetActionResult" && calls.fetch_add(1, Ordering::SeqCst) % 10 == 9;
        is_last.then_some(Reply::GoAway)
    });
    let engine = client(&fake.url());
    let names: Vec<_> = (0..100).map(|number| name(&format!("{number}"))).collect();
    for _ in 0..3 {
        assert_eq!(get(&*engine, &names), Ok(vec![None; 100]));
    }
    // One that ends each connection at its first call does not keep the client busy.
    let fake = Fake::with(|method, _| (method == "GetActionResult").then_some(Reply::GoAway));
    let answer = get(&*client(&fake.url()), &names);
    assert!(matches!(answer, Err(RemoteError::Unreachable { .. })), "{answer:?}");
    assert!(fake.count("GetActionResult") < 100);
}

/// The calls in progress fail; the next ones use a new connection.
fn aborted() {
    let calls = AtomicUsize::new(0);
    let fake = Fake::with(move |method, _| {
        let is_last = method == "GetActionResult" && calls.fetch_add(1, Ordering::SeqCst) == 9;
        is_last.then_some(Reply::Abrupt)
    });
    let engine = client(&fake.url());
    let names: Vec<_> = (0..100).map(|number| name(&format!("{number}"))).collect();
    match get(&*engine, &names) {
        Ok(found) => assert_eq!(found, vec![None; 100]),
        Err(RemoteError::Unreachable { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&*engine, &names), Ok(vec![None; 100]));
}

/// A status with a `RetryInfo` of some milliseconds.
fn status_with_retry(code: u32, milliseconds: u64) -> Reply {
    let delay = [number(1, milliseconds / 1000), number(2, milliseconds % 1000 * 1_000_000)].concat();
    let info = field(1, &delay);
    let detail = [field(1, b"type.googleapis.com/google.rpc.RetryInfo"), field(2, &info)].concat();
    let status = [number(1, code.into()), field(2, b"later"), field(3, &detail)].concat();
    Reply::Headers(vec![
        ("grpc-status", code.to_string()),
        ("grpc-message", "later".to_owned()),
        ("grpc-status-details-bin", base64(&status)),
    ])
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |part: &[u8]| {
        let bits =
            part.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        (0..=part.len())
            .map(move |at| char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]))
            .collect::<Vec<_>>()
    };
    bytes.chunks(3).flat_map(digits).collect()
}

fn retry_info() {
    for code in [8, 14] {
        let refusals = AtomicUsize::new(0);
        let fake = Fake::with(move |method, _| {
            let is_refused = method == "GetActionResult" && refusals.fetch_add(1, Ordering::SeqCst) < 2;
            is_refused.then(|| status_with_retry(code, 250))
        });
        let began = Instant::now();
        assert_eq!(get(&*client(&fake.url()), &[name("a")]), Ok(vec![None]));
        assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
        assert_eq!(fake.count("GetActionResult"), 3);
        // A minute is too long for a build: the call fails at once.
        let fake = Fake::with(move |method, _| {
            (method == "GetActionResult").then(|| status_with_retry(code, 60_000))
        });
        let answer = get(&*client(&fake.url()), &[name("a")]);
        assert!(
            matches!(&answer, Err(RemoteError::Unreachable { reason }) if reason.contains("later")),
            "{answer:?}"
        );
        assert_eq!(fake.count("GetActionResult"), 1);
    }
}

fn metadata() {
    let text = |length: usize| ("x-trace", "x".repeat(length));
    for (length, is_taken) in [(8 << 10, true), (40 << 10, true), (300 << 10, false)] {
        let fake = Fake::with(move |method, _| {
            let result = [field(1, b"object"), field(2, &digest(b"1")), field(5, b"1")].concat();
            let messages = vec![field(2, &result)];
            (method == "GetActionResult").then(|| Reply::Trailers(messages, vec![text(length)]))
        });
        let engine = client(&fake.url());
        match get(&*engine, &[name("a")]) {
            Ok(found) if is_taken => assert_eq!(found, [Some(b"1".to_vec())]),
            Err(RemoteError::Invalid { .. } | RemoteError::Unreachable { .. }) if !is_taken => {}
            other => panic!("{length}: {other:?}"),
        }
        // Headers alone, which are a status.
        let fake = Fake::with(move |method, _| {
            let status = vec![("grpc-status", "5".to_owned()), text(length)];
            (method == "GetActionResult").then_some(Reply::Headers(status))
        });
        let answer = get(&*client(&fake.url()), &[name("a")]);
        assert_eq!(answer.is_ok(), is_taken, "{length}: {answer:?}");
    }
}

fn http1() {
    use std::io::{Read, Write};
    for head in ["HTTP/1.1 464 \r\nserver: awselb/2.0\r\n\r\n", "HTTP/1.0 400 Bad Request\r\n\r\n<html>"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let engine = client(&format!("grpc://{}", listener.local_addr().unwrap()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; 24]).unwrap();
                stream.write_all(head.as_bytes()).unwrap();
            });
            match get(&*engine, &[name("a")]) {
                Err(RemoteError::Unreachable { reason }) => {
                    assert!(
                        reason.contains("does not speak HTTP/2") && reason.contains(&head[..12]),
                        "{reason}"
                    );
                    assert!(!reason.contains("server:") && !reason.contains("<html>"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        });
    }
}
