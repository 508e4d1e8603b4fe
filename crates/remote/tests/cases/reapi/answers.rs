//! Answers that servers give, and some that they should not, from a server in the test's process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{PutAnswer, RemoteEngine, RemoteError, RemoteObject};
use opkeep_testkit::grpc::{field, fields, framed, number, only};

use super::fake::{Fake, capabilities, digest};
use super::http2::Reply;
use super::{client, name};
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    let trials: [(&str, fn()); 14] = [
        ("an evicted blob is a missing object, and is stored again", evicted),
        ("content under another's digest is the cache's to refuse, and is replaced", wrong_content),
        ("contents in an action's result are not requested again", inline),
        ("a result of another program is no object", foreign),
        ("a failed call is the error of its status", statuses),
        ("a blob that the server refuses is the error of its status", blob_statuses),
        ("a server that reads no more of a blob is heard", early),
        ("a server whose cache is read-only is read", read_only),
        ("what a server says it can do is needed", abilities),
        ("messages are as large as the server takes", batches),
        ("a server that takes no messages of blobs gets streams", streams),
        ("an answer that is none of gRPC is refused", invalid),
        ("a server that ends its connections is asked over new ones", connections),
        ("a result that the server does not replace exists", kept),
    ];
    let trial = |(name, run): (&str, fn())| {
        Trial::test(format!("reapi/answers/{name}"), move || {
            run();
            Ok::<(), Failed>(())
        })
    };
    trials.into_iter().map(trial).collect()
}

/// A small object, and one that is too large for a message.
const SIZES: [usize; 2] = [1000, 6 << 20];

fn put(engine: &dyn RemoteEngine, text: &str, content: &[u8]) -> Result<Vec<PutAnswer>, RemoteError> {
    engine.put_if_absent(&[RemoteObject::new(&name(text), content)], &limits())
}

fn replace(engine: &dyn RemoteEngine, text: &str, content: &[u8]) -> Result<(), RemoteError> {
    engine.replace(&[RemoteObject::new(&name(text), content)], &limits())
}

fn found(engine: &dyn RemoteEngine, text: &str) -> Result<Option<Vec<u8>>, RemoteError> {
    get(engine, &[name(text)]).map(|mut found| found.remove(0))
}

fn evicted() {
    let fake = Fake::start();
    let engine = client(&fake.url());
    for size in SIZES {
        let (text, bytes) = (format!("of-{size}"), content(size, 1));
        assert_eq!(put(&*engine, &text, &bytes), Ok(vec![PutAnswer::Stored]));
        assert_eq!(put(&*engine, &text, b"other"), Ok(vec![PutAnswer::Existed]));
        assert!(found(&*engine, &text) == Ok(Some(bytes.clone())));
        assert!(fake.content(|content| content.blobs.remove(&digest(&bytes))).is_some());
        assert_eq!(found(&*engine, &text), Ok(None));
        // A server may evict all but the results.
        fake.content(|content| content.blobs.clear());
        let other = content(size, 2);
        assert_eq!(put(&*engine, &text, &other), Ok(vec![PutAnswer::Stored]));
        assert!(found(&*engine, &text) == Ok(Some(other)));
    }
}

fn wrong_content() {
    let fake = Fake::start();
    let engine = client(&fake.url());
    for size in SIZES {
        let (text, bytes) = (format!("of-{size}"), content(size, 1));
        replace(&*engine, &text, &bytes).unwrap();
        let damage = |damaged: &[u8]| {
            fake.content(|content| content.blobs.insert(digest(&bytes), damaged.to_vec()));
        };
        for damaged in [content(size, 9), content(size / 2, 1), Vec::new()] {
            damage(&damaged);
            assert!(found(&*engine, &text) == Ok(Some(damaged)), "{size}");
            replace(&*engine, &text, &bytes).unwrap();
            assert!(found(&*engine, &text) == Ok(Some(bytes.clone())), "{size}");
        }
    }
    // A stream ends where the digest says.
    let (text, bytes) = (format!("of-{}", SIZES[1]), content(SIZES[1], 1));
    fake.content(|content| content.blobs.insert(digest(&bytes), [&bytes[..], b"x"].concat()));
    let answer = found(&*engine, &text);
    assert!(matches!(answer, Err(RemoteError::Invalid { .. })));
    assert_eq!(found(&*engine, "none"), Ok(None));
}

fn inline() {
    let fake = Fake::with(|method, messages| {
        (method == "GetActionResult").then(|| {
            assert_eq!(fields(&messages[0], 5), [b"object"]);
            let file = [field(1, b"object"), field(2, &digest(b"content")), field(5, b"content")];
            Reply::Messages(vec![field(2, &file.concat())])
        })
    });
    let engine = client(&fake.url());
    assert_eq!(found(&*engine, "a"), Ok(Some(b"content".to_vec())));
    assert_eq!(fake.count("BatchReadBlobs"), 0);
}

fn foreign() {
    let digest_of = |hash: &[u8], size| [field(1, hash), number(2, size)].concat();
    let file = |path: &[u8], digest: &[u8]| field(2, &[field(1, path), field(2, digest)].concat());
    let results = [
        Vec::new(),
        file(b"main.o", &digest(b"content")),
        file(b"object", &digest_of(b"../../etc/passwd", 7)),
        file(b"object", &digest_of(&[b'0'; 64], u64::MAX)),
        field(2, &field(1, b"object")),
    ];
    for result in results {
        let fake = Fake::start();
        let engine = client(&fake.url());
        replace(&*engine, "a", b"1").unwrap();
        fake.content(|content| content.results.values_mut().for_each(|old| *old = result.clone()));
        assert_eq!(found(&*engine, "a"), Ok(None));
        assert_eq!(put(&*engine, "a", b"2"), Ok(vec![PutAnswer::Stored]));
        assert_eq!(found(&*engine, "a"), Ok(Some(b"2".to_vec())));
    }
}

/// The kind of an error, and its text.
fn shown<T>(answer: Result<T, RemoteError>) -> (&'static str, String) {
    let error = answer.map(drop).unwrap_err();
    let kind = match &error {
        RemoteError::Unreachable { .. } => "unreachable",
        RemoteError::TimedOut => "timed out",
        RemoteError::Full { .. } => "full",
        RemoteError::Refused { .. } => "refused",
        RemoteError::Invalid { .. } => "invalid",
        _ => "other",
    };
    (kind, error.to_string())
}

fn statuses() {
    let of_all = [
        ("GetCapabilities", "get"),
        ("GetActionResult", "get"),
        ("BatchReadBlobs", "get"),
        ("GetActionResult", "put"),
        ("FindMissingBlobs", "put"),
        ("BatchUpdateBlobs", "put"),
        ("UpdateActionResult", "put"),
        ("UpdateActionResult", "replace"),
        ("Write", "put"),
        ("Read", "get"),
    ];
    let codes = [(7, "refused"), (12, "refused"), (16, "refused"), (14, "unreachable"), (4, "timed out")];
    let failing = Arc::new(Mutex::new(None::<(&str, u32)>));
    let of_hook = failing.clone();
    let fake = Fake::with(move |method, _| match *of_hook.lock().unwrap() {
        Some((failing, code)) if failing == method => Some(Reply::Status(code, "because%20of%20that")),
        // Two of the objects do not fit in a message.
        _ => (method == "GetCapabilities").then(|| capabilities(1, 5000, true)),
    });
    let of_size = |name: &str, size: usize| (name.to_owned(), content(size, 1));
    for (text, bytes) in [of_size("small", 10), of_size("large", 20_000)] {
        replace(&*client(&fake.url()), &text, &bytes).unwrap();
    }
    for (method, call) in of_all {
        for (code, kind) in codes {
            // A server may lack these methods.
            let is_optional = method == "GetCapabilities" || method.starts_with("Batch");
            if is_optional && code == 12 {
                continue;
            }
            let (text, size) =
                if matches!(method, "Read" | "Write") { ("large", 20_001) } else { ("small", 11) };
            *failing.lock().unwrap() = Some((method, code));
            let engine = client(&fake.url());
            let answer = match call {
                "get" => found(&*engine, text).map(drop),
                "put" => put(&*engine, "new", &content(size, 2)).map(drop),
                _ => replace(&*engine, "new", &content(size, 2)),
            };
            let (found, text) = shown(answer);
            assert_eq!(found, kind, "{method} for {call}: {code}: {text}");
            assert!(code == 4 || text.contains("because of that"), "{text}");
        }
    }
    // A server without space can still be read; one that has too many calls is not full.
    for (failing, call, kind) in
        [("UpdateActionResult", "put", "full"), ("GetActionResult", "get", "unreachable")]
    {
        let fake = Fake::with(move |method, _| (method == failing).then_some(Reply::Status(8, "too much")));
        let engine = client(&fake.url());
        let answer = match call {
            "get" => found(&*engine, "a").map(drop),
            _ => put(&*engine, "a", b"1").map(drop),
        };
        let (found, text) = shown(answer);
        assert_eq!(found, kind, "{failing}: {text}");
    }
}

fn blob_statuses() {
    for (code, kind) in [(8, "full"), (7, "refused"), (13, "unreachable")] {
        let fake = Fake::with(move |method, messages| {
            (method == "BatchUpdateBlobs").then(|| {
                let status = [number(1, code), field(2, b"because of that")].concat();
                let answers = fields(&messages[0], 2).into_iter().map(|blob| {
                    let key = only(&blob, 1);
                    let status = if key == digest(b"bad") { &status } else { &Vec::new() };
                    field(1, &[field(1, &key), field(2, status)].concat())
                });
                Reply::Messages(vec![answers.flatten().collect()])
            })
        });
        let engine = client(&fake.url());
        let (found, text) = shown(put(&*engine, "a", b"bad"));
        assert_eq!(found, kind, "{text}");
        assert!(text.contains("because of that"), "{text}");
        assert_eq!(fake.count("UpdateActionResult"), 0);
        // The other blobs of a message are found.
        let fake = Fake::with(move |method, messages| {
            (method == "BatchReadBlobs").then(|| {
                let answers = fields(&messages[0], 2).into_iter().map(|key| {
                    let status = field(3, &number(1, code));
                    let outcome = if key == digest(b"bad") { status } else { field(2, b"good") };
                    field(1, &[field(1, &key), outcome].concat())
                });
                // One that nothing asked for comes first.
                let strange = field(1, &[field(1, &digest(b"strange")), field(2, b"strange")].concat());
                Reply::Messages(vec![[vec![strange], answers.collect()].concat().concat()])
            })
        });
        let engine = client(&fake.url());
        let names = [name("bad"), name("good")];
        let objects = [RemoteObject::new(&names[0], b"bad"), RemoteObject::new(&names[1], b"good")];
        engine.replace(&objects, &limits()).unwrap();
        let mut seen = Vec::new();
        let answer = engine.get_many(&names, &limits(), &mut |index, bytes| seen.push((index, bytes)));
        // Reading needs no space.
        let kind = if kind == "full" { "unreachable" } else { kind };
        assert_eq!(shown(answer).0, kind);
        assert_eq!(seen, [(1, b"good".to_vec())]);
    }
}

fn early() {
    let bytes = content(6 << 20, 1);
    let size = bytes.len() as u64;
    // The server had the blob before.
    let fake = Fake::early("Write", Reply::Messages(vec![number(1, size)]));
    let engine = client(&fake.url());
    assert_eq!(put(&*engine, "a", &bytes), Ok(vec![PutAnswer::Stored]));
    for (reply, kind) in [
        (Reply::Messages(vec![number(1, size - 1)]), "invalid"),
        (Reply::Messages(vec![]), "invalid"),
        (Reply::Status(7, "no"), "refused"),
    ] {
        let fake = Fake::early("Write", reply);
        let engine = client(&fake.url());
        assert_eq!(shown(put(&*engine, "a", &bytes)).0, kind);
        assert_eq!(fake.count("UpdateActionResult"), 0);
        assert_eq!(found(&*engine, "a"), Ok(None));
    }
}

fn read_only() {
    let is_read_only = Arc::new(AtomicBool::new(false));
    let flag = is_read_only.clone();
    let fake = Fake::with(move |method, _| {
        let applies = method == "GetCapabilities" && flag.load(Ordering::SeqCst);
        applies.then(|| capabilities(1, 0, false))
    });
    replace(&*client(&fake.url()), "a", b"1").unwrap();
    is_read_only.store(true, Ordering::SeqCst);
    let engine = client(&fake.url());
    assert_eq!(found(&*engine, "a"), Ok(Some(b"1".to_vec())));
    let before = fake.content(|content| content.calls.len());
    for (kind, text) in [shown(put(&*engine, "b", b"2")), shown(replace(&*engine, "b", b"2"))] {
        assert!(kind == "refused" && text.contains("read-only"), "{text}");
    }
    assert_eq!(fake.content(|content| content.calls.len()), before);
}

fn abilities() {
    let unfit = Fake::with(|method, _| (method == "GetCapabilities").then(|| capabilities(2, 0, true)));
    let (kind, text) = shown(found(&*client(&unfit.url()), "a"));
    assert!(kind == "refused" && text.contains("SHA-256"), "{text}");
    let silent =
        Fake::with(|method, _| (method == "GetCapabilities").then_some(Reply::Status(12, "unknown service")));
    let engine = client(&silent.url());
    replace(&*engine, "a", b"1").unwrap();
    assert_eq!(found(&*engine, "a"), Ok(Some(b"1".to_vec())));
    assert_eq!(engine.capabilities(&limits()), Ok(super::capabilities()));
    // It is asked once.
    assert_eq!(found(&*engine, "a"), Ok(Some(b"1".to_vec())));
}

fn batches() {
    for (limit, size) in [(4 << 20, 300 << 10), (0, 300 << 10), (i32::MAX as u64, 300 << 10), (10_000, 1000)]
    {
        let fake =
            Fake::with(move |method, _| (method == "GetCapabilities").then(|| capabilities(1, limit, true)));
        let engine = client(&fake.url());
        let names: Vec<_> = (0..40).map(|number| name(&format!("{number}"))).collect();
        let contents: Vec<_> = (0..40).map(|number| content(size + usize::from(number), number)).collect();
        let objects: Vec<_> =
            names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
        let stored = engine.put_if_absent(&objects, &limits()).unwrap();
        assert_eq!(stored, vec![PutAnswer::Stored; 40]);
        let found = get(&*engine, &names).unwrap();
        assert!(found.into_iter().eq(contents.into_iter().map(Some)));
        let most = match limit {
            10_000 => 10_000,
            _ => 4 << 20,
        };
        fake.content(|content| {
            for (method, length) in &content.calls {
                assert!(*length <= most || method == "FindMissingBlobs", "{method}: {length}");
            }
        });
        for method in ["BatchReadBlobs", "BatchUpdateBlobs"] {
            assert!((3..=10).contains(&fake.count(method)), "{method}: {}", fake.count(method));
        }
        assert_eq!((fake.count("Read"), fake.count("Write")), (0, 0));
    }
}

/// A server that takes no batch at all.
fn streams() {
    let fake = Fake::with(|method, _| (method == "GetCapabilities").then(|| capabilities(1, 1, true)));
    let engine = client(&fake.url());
    let sizes = [0, 1, 255, 300 << 10];
    let names = sizes.map(|size| name(&format!("of-{size}")));
    let contents = sizes.map(|size| content(size, 1));
    let objects: Vec<_> =
        names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
    assert_eq!(engine.put_if_absent(&objects, &limits()), Ok(vec![PutAnswer::Stored; 4]));
    engine.replace(&objects, &limits()).unwrap();
    assert!(get(&*engine, &names) == Ok(contents.map(Some).to_vec()));
    assert_eq!((fake.count("BatchReadBlobs"), fake.count("BatchUpdateBlobs")), (0, 0));
}

fn invalid() {
    let message = field(2, &[field(1, b"object"), field(2, &digest(b"1"))].concat());
    let mut compressed = framed(&message);
    compressed[0] = 1;
    // A field that no one knows makes a message too large.
    let huge = [message.clone(), field(99, &vec![0; 4 << 20])].concat();
    let cut = framed(&message)[..10].to_vec();
    let replies = [
        (Reply::Bytes(compressed), "invalid"),
        (Reply::Messages(vec![huge]), "invalid"),
        (Reply::Bytes(cut), "invalid"),
        (Reply::Bytes(framed(b"\xff\xff\xff")), "invalid"),
        (Reply::Messages(vec![]), "invalid"),
        (Reply::Messages(vec![message.clone(), message.clone()]), "invalid"),
        (Reply::NoStatus(message), "invalid"),
        (Reply::Status(99, "strange"), "invalid"),
        (Reply::Http(200, "<html>"), "invalid"),
        (Reply::Http(502, "<html>"), "unreachable"),
        (Reply::Http(401, "<html>"), "refused"),
        (Reply::Http(404, "<html>"), "refused"),
    ];
    for (index, (reply, kind)) in replies.into_iter().enumerate() {
        let next = AtomicUsize::new(0);
        let fake = Fake::with(move |method, _| {
            let is_first = method == "GetActionResult" && next.fetch_add(1, Ordering::SeqCst) == 0;
            is_first.then(|| reply.clone())
        });
        let engine = client(&fake.url());
        let (found_kind, text) = shown(found(&*engine, "a"));
        assert_eq!(found_kind, kind, "{index}: {text}");
        // The next call is not harmed.
        assert_eq!(found(&*engine, "a"), Ok(None), "{index}");
    }
}

fn connections() {
    let calls = AtomicUsize::new(0);
    let fake = Fake::with(move |method, _| {
        let is_tenth = method == "GetActionResult" && calls.fetch_add(1, Ordering::SeqCst) % 100 == 9;
        is_tenth.then_some(Reply::GoAway)
    });
    let names: Vec<_> = (0..60).map(|number| name(&format!("{number}"))).collect();
    let objects: Vec<_> = names.iter().map(|name| RemoteObject::new(name, b"1")).collect();
    let engine = client(&fake.url());
    engine.replace(&objects, &limits()).unwrap();
    for _ in 0..3 {
        assert_eq!(get(&*engine, &names), Ok(vec![Some(b"1".to_vec()); 60]));
    }
}

fn kept() {
    // The result of another host appears while this one's is on its way.
    for (code, name_of_status) in [(13, "INTERNAL"), (6, "ALREADY_EXISTS"), (9, "FAILED_PRECONDITION")] {
        let stored = Arc::new(Mutex::new(None::<Vec<u8>>));
        let of_hook = stored.clone();
        let fake = Fake::with(move |method, _| {
            let mut stored = of_hook.lock().unwrap();
            match method {
                "UpdateActionResult" => {
                    let other = [field(1, b"object"), field(2, &digest(b"other"))].concat();
                    stored.get_or_insert(field(2, &other));
                    Some(Reply::Status(code, "exists"))
                }
                "GetActionResult" => stored.clone().map(|result| Reply::Messages(vec![result])),
                _ => None,
            }
        });
        let engine = client(&fake.url());
        assert_eq!(put(&*engine, "a", b"own"), Ok(vec![PutAnswer::Existed]));
        let (kind, text) = shown(replace(&*engine, "a", b"own"));
        assert!(kind == "refused" && text.contains(name_of_status), "{text}");
        // What is stored already is as requested.
        assert_eq!(replace(&*engine, "a", b"other"), Ok(()));
        *stored.lock().unwrap() = None;
    }
}
