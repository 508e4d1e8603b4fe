//! A server that speaks another protocol, or lies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{RemoteContext, RemoteError};

use super::{capabilities, client, name};
use crate::contract::answers_of_all_calls;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("redis/answers/answers that do not fit are invalid", invalid),
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
