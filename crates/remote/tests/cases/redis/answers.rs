//! A server that speaks another protocol, or lies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimTerms, ObjectName, RemoteContext, RemoteEngine, RemoteError, RemoteObject};

use super::{capabilities, client, name};
use crate::contract::{answers_of_all_calls, lease, token};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("redis/answers/answers that do not fit are invalid", invalid),
        Trial::test("redis/answers/each command has the answers of its own only", of_commands),
        Trial::test("redis/answers/no error repeats the password", passwords),
        Trial::test("redis/answers/objects that were not requested are not reported", surplus),
        Trial::test("redis/answers/a server that closes its connections is unreachable", closing),
        Trial::test("redis/answers/a server that is not there is unreachable", absent),
    ]
}

/// Answers the first bytes of each connection with `answer`, and then waits for its end.
fn server(answer: &[u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, answer) = (listener.local_addr().unwrap(), answer.to_vec());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let answer = answer.clone();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                if stream.read(&mut buffer).is_ok_and(|length| length > 0)
                    && stream.write_all(&answer).is_ok()
                {
                    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
                }
            });
        }
    });
    address
}

fn context() -> RemoteContext<'static> {
    RemoteContext::new(Instant::now() + Duration::from_secs(60), None)
}

fn invalid() -> Result<(), Failed> {
    let answers: [&[u8]; 9] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x01\0\x02\x02\x46",
        b"+PONG\r\n",
        b"*3\r\n$1\r\na\r\n:1\r\n$-1\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        b"*2\r\n+OK\r\n+OK\r\n",
        b"$5\r\nabc\r\n\r\n",
        b"*9999999999\r\n",
        b"$99999999999\r\n",
    ];
    for answer in answers {
        let engine = client(&format!("redis://{}", server(answer)));
        for (call, result) in
            answers_of_all_calls(&*engine, &capabilities(), &[name("a"), name("b")], &context())
        {
            let text = String::from_utf8_lossy(answer);
            assert!(matches!(result, Err(RemoteError::Invalid { .. })), "{call} of {text:?}: {result:?}");
        }
    }
    Ok(())
}

type Call = fn(&dyn RemoteEngine, &[ObjectName]) -> Result<(), RemoteError>;

const HOUR: Duration = Duration::from_secs(3600);

/// Each call about one name, and the answers that mean something to it.
const CALLS: [(&str, Call, &[&str]); 11] = [
    (
        "get_many",
        |engine, names| engine.get_many(names, &context(), &mut |_, _| {}),
        &["*1\r\n$-1\r\n", "*1\r\n$2\r\nno\r\n", LONG_VALUE],
    ),
    (
        "put_if_absent",
        |engine, names| engine.put_if_absent(&[object(&names[0])], &context()).map(drop),
        &["+OK\r\n", "$-1\r\n"],
    ),
    ("replace", |engine, names| engine.replace(&[object(&names[0])], &context()), &["+OK\r\n"]),
    ("remove", |engine, names| engine.remove(names, &context()), &[":0\r\n", ":1\r\n"]),
    (
        "claim",
        |engine, names| {
            let terms = ClaimTerms::new(1, HOUR);
            engine.claim(names, &lease(1, 0), terms, &context()).map(drop)
        },
        &["*1\r\n:1\r\n", "*1\r\n$2\r\nno\r\n"],
    ),
    (
        "renew",
        |engine, names| engine.renew(names, &lease(1, 1), HOUR, &context()).map(drop),
        &["*1\r\n:0\r\n", "*1\r\n:1\r\n"],
    ),
    ("release", |engine, names| engine.release(names, &token(1), &context()), &[":1\r\n"]),
    (
        "progress",
        |engine, names| engine.progress(&names[0], &context()).map(drop),
        &["$-1\r\n", "$1\r\n7\r\n"],
    ),
    ("advance", |engine, names| engine.advance(&names[0], 1, HOUR, &context()), &[":1\r\n"]),
    (
        "list",
        |engine, _| engine.list("", "", &context()).map(drop),
        &["*2\r\n$1\r\n0\r\n*0\r\n", "*2\r\n$1\r\n5\r\n*0\r\n"],
    ),
    // No text here states the limit.
    ("space", |engine, _| engine.space(&context()).map(drop), &[]),
];

/// Longer than a script returns of a lease.
const LONG_VALUE: &str = "*1\r\n$65\r\n0123456789012345678901234567890123456789012345678901234567890123!\r\n";

/// Answers of the protocol, of all types.
const ANSWERS: [&str; 32] = [
    "+OK\r\n",
    "+ok\r\n",
    "+\r\n",
    "+QUEUED\r\n",
    ":0\r\n",
    ":1\r\n",
    ":2\r\n",
    ":-1\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "$0\r\n\r\n",
    "$1\r\n7\r\n",
    "$2\r\n+7\r\n",
    "$2\r\nno\r\n",
    "$2\r\nOK\r\n",
    "*0\r\n",
    "*1\r\n:0\r\n",
    "*1\r\n:1\r\n",
    "*1\r\n:2\r\n",
    "*1\r\n:-1\r\n",
    "*1\r\n+OK\r\n",
    "*1\r\n$-1\r\n",
    "*1\r\n*-1\r\n",
    "*1\r\n$2\r\nno\r\n",
    LONG_VALUE,
    "*1\r\n*0\r\n",
    "*2\r\n:1\r\n:1\r\n",
    "*2\r\n$1\r\n0\r\n*0\r\n",
    "*2\r\n$1\r\n5\r\n*0\r\n",
    "*2\r\n$2\r\n-1\r\n*0\r\n",
    "*2\r\n$0\r\n\r\n*0\r\n",
    "*2\r\n$1\r\n0\r\n*1\r\n:1\r\n",
];

fn object(name: &ObjectName) -> RemoteObject<'_> {
    RemoteObject::new(name, b"content")
}

/// What a command cannot answer means nothing: an object is not stored because a server answered anything.
fn of_commands() -> Result<(), Failed> {
    for answer in ANSWERS {
        let address = server(answer.as_bytes());
        for (call, make, expected) in CALLS {
            let result = make(&*client(&format!("redis://{address}")), &[name("a")]);
            let is_expected = match &result {
                Ok(()) => expected.contains(&answer),
                Err(error) => matches!(error, RemoteError::Invalid { .. }) && !expected.contains(&answer),
            };
            assert!(is_expected, "{call} of {answer:?}: {result:?}");
        }
    }
    assert!(CALLS.iter().all(|(_, _, expected)| expected.iter().all(|answer| ANSWERS.contains(answer))));
    Ok(())
}

/// A server may repeat what it got, at any place of its text.
fn passwords() -> Result<(), Failed> {
    let padding = "x".repeat(290);
    let texts = [
        "ERR 'hunter2'".to_owned(),
        "MOVED hunter2 hunter2".to_owned(),
        format!("ERR {padding}hunter2"),
        format!("OOM {padding}hunter2"),
    ];
    for text in texts {
        // The answer to AUTH, and to the call; the answer to AUTH alone.
        for answer in
            [format!("+OK\r\n-{text}\r\n"), format!("+OK\r\n*1\r\n-{text}\r\n"), format!("-{text}\r\n")]
        {
            let address = server(answer.as_bytes());
            for (call, make, _) in CALLS {
                let engine = client(&format!("redis://user:hunter2@{address}"));
                // The answer of a cluster is remembered.
                let calls = if text.starts_with("MOVED") && call != "space" { 2 } else { 1 };
                for _ in 0..calls {
                    let result = make(&*engine, &[name("a")]);
                    let shown = format!("{result:?}");
                    assert!(!shown.contains("hunt"), "{call} of {answer:?}: {shown}");
                    assert!(result.is_err() || call == "space", "{call} of {answer:?}");
                }
            }
        }
    }
    Ok(())
}

fn surplus() -> Result<(), Failed> {
    // The answer has an element too much, or too few; or a second answer follows, which belongs to no request.
    for (answer, is_whole) in [
        (b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n".as_slice(), false),
        (b"*1\r\n$1\r\na\r\n", false),
        (b"*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n", true),
    ] {
        let engine = client(&format!("redis://{}", server(answer)));
        for _ in 0..3 {
            let mut found = Vec::new();
            let names = [name("a"), name("b")];
            let result =
                engine.get_many(&names, &context(), &mut |index, content| found.push((index, content)));
            match is_whole {
                true => assert_eq!((result, found), (Ok(()), vec![(0, b"a".to_vec()), (1, b"b".to_vec())])),
                false => {
                    assert!(matches!((result, found.as_slice()), (Err(RemoteError::Invalid { .. }), [])))
                }
            }
        }
    }
    Ok(())
}

fn closing() -> Result<(), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    assert_unreachable(address);
    Ok(())
}

fn absent() -> Result<(), Failed> {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_unreachable(address);
    Ok(())
}

fn assert_unreachable(address: SocketAddr) {
    let engine = client(&format!("redis://{address}"));
    for (call, result) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &context()) {
        assert!(matches!(result, Err(RemoteError::Unreachable { .. })), "{call}: {result:?}");
    }
}
