//! A server whose answers are cut, do not fit, or are errors.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimAnswer, ClaimTerms, PutAnswer, RemoteContext, RemoteError, RemoteObject};

use super::fake::{Fake, Then, answer, error};
use super::{capabilities, client, name};
use crate::contract::{answers_of_all_calls, get, lease, limits};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("s3/answers/half an answer is an error, and what came before counts", half),
        Trial::test("s3/answers/an object comes as a whole or not at all", framing),
        Trial::test("s3/answers/another protocol is invalid", other_protocols),
        Trial::test("s3/answers/a web server that has no objects is invalid", web_server),
        Trial::test("s3/answers/each request has the answers of its own only", of_requests),
        Trial::test("s3/answers/listings that are none", listings),
        Trial::test("s3/answers/codes of errors", codes),
        Trial::test("s3/answers/an error with a status of success", success),
        Trial::test("s3/answers/a redirect names the region", redirects),
        Trial::test("s3/answers/bytes after an answer are no other call's", surplus),
        Trial::test("s3/answers/a server without conditions", without_conditions),
        Trial::test("s3/answers/a server that ignores conditions", ignored_conditions),
        Trial::test("s3/answers/conflicts are tried again", conflicts),
    ]
}

fn half() -> Result<(), Failed> {
    let fake = Fake::start(|head| match head.contains("/b ") {
        true => (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec(), Then::Close),
        false => (answer(200, "", "whole"), Then::Keep),
    });
    let mut found = Vec::new();
    let result = client(&fake.url()).get_many(&[name("a"), name("b")], &limits(), &mut |index, content| {
        found.push((index, content));
    });
    assert_eq!(found, [(0, b"whole".to_vec())]);
    assert!(matches!(result, Err(RemoteError::Unreachable { .. })), "{result:?}");
    Ok(())
}

fn framing() -> Result<(), Failed> {
    let get = |bytes: &[u8]| {
        let bytes = bytes.to_vec();
        let fake = Fake::start(move |_| (bytes.clone(), Then::Close));
        get(&*client(&fake.url()), &[name("a")]).map(|mut found| found.remove(0).unwrap())
    };
    let head = "HTTP/1.1 200 OK\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    assert_eq!(get(&answer(200, "", "")), Ok(Vec::new()));
    assert_eq!(get(format!("{chunked}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").as_bytes()), Ok(b"abcde".to_vec()));
    let continued = [b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(), &answer(200, "", "x")].concat();
    assert_eq!(get(&continued), Ok(b"x".to_vec()));
    for cut in [
        String::new(),
        "HTTP/1.1 200".to_owned(),
        format!("{head}Content-Length: 5\r\n"),
        format!("{head}Content-Length: 5\r\n\r\nabcd"),
        chunked.clone(),
        format!("{chunked}3\r\nabc\r\n"),
        format!("{chunked}3\r\nabc\r\n0\r\n"),
    ] {
        let result = get(cut.as_bytes());
        assert!(matches!(result, Err(RemoteError::Unreachable { .. })), "{cut:?}: {result:?}");
    }
    for wrong in [
        format!("{head}\r\nabcde"),
        format!("{head}Content-Length: five\r\n\r\nabcde"),
        format!("{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde"),
        format!("{head}Content-Length: 999999999999\r\n\r\nabcde"),
        format!("{chunked}3\r\nabcde\r\n0\r\n\r\n"),
        format!("{chunked}ffffffffffff\r\nabc"),
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\na".to_owned(),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
    ] {
        let result = get(wrong.as_bytes());
        assert!(matches!(result, Err(RemoteError::Invalid { .. })), "{wrong:?}: {result:?}");
    }
    Ok(())
}

fn other_protocols() -> Result<(), Failed> {
    for bytes in
        ["-ERR unknown command\r\n\r\n", "\x15\x03\x01\0\x02\x02\x46\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"]
    {
        let fake = Fake::with(bytes.as_bytes().to_vec());
        let engine = client(&fake.url());
        for (call, result) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
            // It has no counters, and so no answer to them.
            assert!(matches!(result, Err(RemoteError::Invalid { .. })), "{call} of {bytes:?}: {result:?}");
        }
    }
    Ok(())
}

/// A wrong address must not look like an empty cache.
fn web_server() -> Result<(), Failed> {
    let fake = Fake::with(answer(404, "Content-Type: text/html\r\n", "<html><body>Not Found</body></html>"));
    let engine = client(&fake.url());
    for (call, result) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
        assert!(matches!(result, Err(RemoteError::Invalid { .. })), "{call}: {result:?}");
    }
    assert!(engine.capabilities(&limits()).is_err());
    Ok(())
}

/// A page that wants a login has a status of success: nothing is stored because of it.
fn of_requests() -> Result<(), Failed> {
    let answers = [
        (200, ""),
        (200, "OK"),
        (200, "<html><body>Log in</body></html>"),
        (200, "<?xml version=\"1.0\"?><Odd/>"),
        (201, ""),
        (202, ""),
        (204, ""),
        (205, ""),
        (206, ""),
        (299, ""),
    ];
    for (status, body) in answers {
        let engine = client(&Fake::with(answer(status, "", body)).url());
        let (names, terms) = ([name("a")], ClaimTerms::new(1, Duration::from_secs(3600)));
        let objects = [RemoteObject::new(&names[0], b"x")];
        let results = [
            ("replace", engine.replace(&objects, &limits()), 200..=200),
            ("put_if_absent", engine.put_if_absent(&objects, &limits()).map(drop), 200..=200),
            ("claim", engine.claim(&names, &lease(1, 0), terms, &limits()).map(drop), 200..=200),
            ("capabilities", engine.capabilities(&limits()).map(drop), 200..=200),
            ("remove", engine.remove(&names, &limits()), 200..=204),
            ("list", engine.list("", "", &limits()).map(drop), 0..=0),
        ];
        for (call, result, statuses) in results {
            let is_known = statuses.contains(&status) && !matches!(status, 201 | 202) && body.is_empty();
            let is_expected = match &result {
                Ok(()) => is_known,
                Err(error) => !is_known && matches!(error, RemoteError::Invalid { .. }),
            };
            assert!(is_expected, "{call} of {status} {body:?}: {result:?}");
        }
    }
    Ok(())
}

fn listings() -> Result<(), Failed> {
    for body in [
        "",
        "garbage",
        "<ListBucketResult>",
        "<Other/>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ] {
        let result = client(&Fake::with(answer(200, "", body)).url()).list("", "", &limits());
        assert!(matches!(result, Err(RemoteError::Invalid { .. })), "{body}: {result:?}");
    }
    Ok(())
}

/// The result of a request that the server answers with an error.
fn refusal(status: u16, code: &str, message: &str) -> RemoteError {
    let engine = client(&Fake::with(error(status, code, message)).url());
    let result = engine.replace(&[RemoteObject::new(&name("a"), b"x")], &limits());
    result.unwrap_err()
}

fn codes() -> Result<(), Failed> {
    for (status, code) in [(507, ""), (400, "EntityTooLarge"), (403, "QuotaExceeded"), (413, "")] {
        assert!(matches!(refusal(status, code, "m"), RemoteError::Full { .. }), "{status} {code}");
    }
    for (status, code) in [
        (500, "InternalError"),
        (503, "SlowDown"),
        (429, ""),
        (502, ""),
        (400, "RequestTimeout"),
        (409, "OperationAborted"),
    ] {
        assert!(matches!(refusal(status, code, "m"), RemoteError::Unreachable { .. }), "{status} {code}");
    }
    for (status, code) in [
        (403, "SignatureDoesNotMatch"),
        (403, "AccessDenied"),
        (404, "NoSuchBucket"),
        (400, "Odd"),
        (401, ""),
        (501, "NotImplemented"),
    ] {
        let error = refusal(status, code, "the reason");
        assert!(matches!(error, RemoteError::Refused { .. }), "{status} {code}: {error}");
        assert!(
            error.to_string().contains(&status.to_string()) && error.to_string().contains(code),
            "{error}"
        );
    }
    // A missing bucket is no missing object.
    let fake = Fake::with(error(404, "NoSuchBucket", "m"));
    assert!(matches!(get(&*client(&fake.url()), &[name("a")]), Err(RemoteError::Refused { .. })));
    // A server's text is bounded and printable, and no text shows the keys.
    let text = format!("key SKSKSKSK of AK \u{1b}[31m{}", "x".repeat(50_000));
    let text = refusal(403, "AccessDenied", &text.replace('\u{1b}', "&#9;")).to_string();
    assert!(text.len() < 600 && text.contains("key *** of ***") && !text.contains('\t'), "{text}");
    Ok(())
}

fn success() -> Result<(), Failed> {
    let engine = client(&Fake::with(error(200, "InternalError", "later")).url());
    let name = name("a");
    let objects = [RemoteObject::new(&name, b"x")];
    let is_busy = |result: Result<(), RemoteError>| {
        assert!(matches!(result, Err(RemoteError::Unreachable { .. })), "{result:?}");
    };
    is_busy(engine.replace(&objects, &limits()));
    is_busy(engine.put_if_absent(&objects, &limits()).map(drop));
    is_busy(engine.remove(std::slice::from_ref(&name), &limits()));
    is_busy(engine.list("", "", &limits()).map(drop));
    Ok(())
}

fn redirects() -> Result<(), Failed> {
    let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-1</Region></Error>";
    for bytes in [
        answer(301, "x-amz-bucket-region: eu-west-1\r\n", "<Error><Code>PermanentRedirect</Code></Error>"),
        answer(307, "x-amz-bucket-region: eu-west-1\r\nLocation: http://127.0.0.1:1/\r\n", ""),
        answer(400, "", malformed),
    ] {
        let engine = client(&Fake::with(bytes).url());
        for (call, result) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
            match result {
                Err(RemoteError::Refused { reason }) => {
                    assert!(reason.contains("region=eu-west-1"), "{reason}")
                }
                other => panic!("{call}: {other:?}"),
            }
        }
    }
    Ok(())
}

fn surplus() -> Result<(), Failed> {
    let fake = Fake::start(|head| {
        let body = head.split(' ').nth(1).unwrap();
        ([answer(200, "", body), answer(200, "", "another's")].concat(), Then::Keep)
    });
    let engine = client(&fake.url());
    for text in ["a", "b", "c"] {
        let found = get(&*engine, &[name(text)]).unwrap();
        assert_eq!(found, [Some(format!("/bucket/cache/{text}").into_bytes())]);
    }
    Ok(())
}

/// A server that answers requests with a condition by 501.
fn without_conditions() -> Result<(), Failed> {
    let fake = Fake::start(|head| {
        let bytes = match head {
            head if head.contains("if-none-match") || head.contains("if-match") => {
                error(501, "NotImplemented", "a header")
            }
            head if head.starts_with("HEAD") && head.contains("/old ") => {
                b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_vec()
            }
            head if head.starts_with("HEAD") => {
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\n".to_vec()
            }
            head if head.starts_with("GET") => answer(200, "ETag: \"1\"\r\n", &lease(1, 0).to_string()),
            _ => answer(200, "", ""),
        };
        (bytes, Then::Keep)
    });
    let engine = client(&fake.url());
    let expected = opkeep_cache::ExclusiveCreate::None;
    assert_eq!(engine.capabilities(&limits()).unwrap().exclusive_create, expected);
    let (old, new) = (name("old"), name("new"));
    let objects = [RemoteObject::new(&old, b"x"), RemoteObject::new(&new, b"x")];
    let answers = engine.put_if_absent(&objects, &limits());
    assert_eq!(answers, Ok(vec![PutAnswer::Existed, PutAnswer::Stored]));
    let hour = Duration::from_secs(3600);
    let claimed = engine.claim(&[name("l")], &lease(1, 0), ClaimTerms::new(1, hour), &limits());
    assert!(matches!(claimed, Err(RemoteError::Unsupported { .. })), "{claimed:?}");
    assert_eq!(engine.renew(&[name("l")], &lease(1, 1), hour, &limits()), Ok(vec![true]));
    assert_eq!(engine.release(&[name("l")], &lease(1, 0).token, &limits()), Ok(()));
    let stored = fake.heads().iter().filter(|head| head.starts_with("PUT /bucket/cache/old ")).count();
    assert_eq!(stored, 1, "what exists is not replaced");
    Ok(())
}

fn ignored_conditions() -> Result<(), Failed> {
    let fake = Fake::with(answer(200, "", ""));
    let engine = client(&fake.url());
    for _ in 0..2 {
        let found = engine.capabilities(&limits()).unwrap().exclusive_create;
        assert_eq!(found, opkeep_cache::ExclusiveCreate::None);
    }
    // Once, and nothing is left.
    let methods: Vec<_> =
        fake.heads().iter().map(|head| head.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(methods, ["PUT", "PUT", "DELETE"]);
    Ok(())
}

/// The first two requests with a condition meet another one.
fn conflicts() -> Result<(), Failed> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let fake = Fake::start(move |head| {
        let bytes = match head {
            head if head.contains("if-none-match") => {
                match count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 3 {
                    2 => answer(200, "", ""),
                    _ => error(409, "ConditionalRequestConflict", "m"),
                }
            }
            head if head.starts_with("HEAD") => b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec(),
            _ => error(404, "NoSuchKey", "m"),
        };
        (bytes, Then::Keep)
    });
    let engine = client(&fake.url());
    let stored = engine.put_if_absent(&[RemoteObject::new(&name("a"), b"x")], &limits());
    assert_eq!(stored, Ok(vec![PutAnswer::Stored]));
    let terms = ClaimTerms::new(1, Duration::from_secs(3600));
    assert_eq!(engine.claim(&[name("l")], &lease(1, 0), terms, &limits()), Ok(vec![ClaimAnswer::Granted]));
    // A server that always reports a conflict does not keep a call for ever.
    let engine = client(&Fake::with(error(409, "ConditionalRequestConflict", "m")).url());
    let context = RemoteContext::new(Instant::now() + Duration::from_secs(60), None);
    let stored = engine.put_if_absent(&[RemoteObject::new(&name("a"), b"x")], &context);
    assert!(stored.is_err(), "{stored:?}");
    Ok(())
}
