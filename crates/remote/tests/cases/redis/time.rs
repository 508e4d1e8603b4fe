//! Servers that do not answer.

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{CancelToken, IdleTimeout, RemoteContext, RemoteError, RemoteObject};
use opkeep_testkit::proxy::{Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::{capabilities, client, name};
use crate::contract::{answers_of_all_calls, get, limits};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn trials() -> Vec<Trial> {
    let redis = ServerKind::redis;
    vec![
        Trial::test("redis/time/a server that never answers", never),
        Trial::test("redis/time/a call that is cancelled while it waits", cancelled),
        trial("redis/time/an answer that comes too late is no other call's", redis(), late),
        trial("redis/time/a server that stops in the middle of a large object", redis(), stopped),
        trial("redis/time/a server that is idle ends a call", redis(), idle),
        trial("redis/time/a large object over a slow link is progress", redis(), slow_link),
    ]
}

/// Accepts connections, and neither reads nor writes.
fn black_hole() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().map(Result::unwrap).collect::<Vec<_>>());
    address
}

fn never() -> Result<(), Failed> {
    for user in ["", ":password@"] {
        let engine = client(&format!("redis://{user}{}", black_hole()));
        let began = Instant::now();
        let mut calls = 0;
        loop {
            let context = RemoteContext::new(Instant::now() + Duration::from_millis(50), None);
            for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &context) {
                assert_eq!(answer, Err(RemoteError::TimedOut), "{call}");
                calls += 1;
            }
            if calls > 20 {
                break;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    // A request that is larger than what the sockets hold is not sent for ever, either.
    let (engine, bytes) = (client(&format!("redis://{}", black_hole())), vec![7; 64 << 20]);
    let context = RemoteContext::new(Instant::now() + Duration::from_millis(300), None);
    let answer = engine.replace(&[RemoteObject::new(&name("a"), &bytes)], &context);
    assert_eq!(answer, Err(RemoteError::TimedOut));
    Ok(())
}

fn cancelled() -> Result<(), Failed> {
    let engine = client(&format!("redis://{}", black_hole()));
    let cancel = CancelToken::new();
    let context = RemoteContext::new(Instant::now() + HOUR, Some(&cancel));
    thread::scope(|scope| {
        let call = scope.spawn(|| answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &context));
        cancel.cancel();
        for (call, answer) in call.join().unwrap() {
            assert_eq!(answer, Err(RemoteError::Cancelled), "{call}");
        }
    });
    Ok(())
}

/// The server answers the first call after its caller has left.
fn late(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let names = [name("a"), name("b")];
    let objects = [RemoteObject::new(&names[0], b"1"), RemoteObject::new(&names[1], b"2")];
    engine.replace(&objects, &limits()).unwrap();
    for _ in 0..5 {
        server.suspend()?;
        let context = RemoteContext::new(Instant::now() + Duration::from_millis(50), None);
        let answer = engine.get_many(&names[..1], &context, &mut |_, _| panic!("the server is suspended"));
        assert_eq!(answer, Err(RemoteError::TimedOut));
        server.resume()?;
        assert_eq!(get(&*engine, &names[1..]), Ok(vec![Some(b"2".to_vec())]));
    }
    Ok(())
}

/// Nothing but the idle timeout ends a call to a server that hangs.
fn idle(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    server.suspend()?;
    let idle = IdleTimeout::new(Duration::from_millis(300));
    let context = RemoteContext::new(Instant::now() + HOUR, None).with_idle_timeout(&idle);
    let answer = engine.get_many(&[name("a")], &context, &mut |_, _| panic!("the server is suspended"));
    server.resume()?;
    assert_eq!(answer, Err(RemoteError::TimedOut));
    Ok(())
}

/// It takes several times as long as the server may be idle.
fn slow_link(server: Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let engine = client(&server.url_at(proxy.address()));
    let (names, large) = ([name("large")], vec![7; 4 << 20]);
    engine.replace(&[RemoteObject::new(&names[0], &large)], &limits()).unwrap();
    proxy.set(ProxySettings { bytes_per_second: Some(2 << 20), ..ProxySettings::default() })?;
    let idle = IdleTimeout::new(Duration::from_millis(500));
    let context = RemoteContext::new(Instant::now() + HOUR, None).with_idle_timeout(&idle);
    let (began, mut length) = (Instant::now(), 0);
    engine.get_many(&names, &context, &mut |_, content| length = content.len()).unwrap();
    assert_eq!(length, large.len());
    assert!(began.elapsed() > Duration::from_millis(1000), "the link is not slow");
    Ok(())
}

fn stopped(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let names = [name("small"), name("large")];
    let large = vec![7; 64 << 20];
    let objects = [RemoteObject::new(&names[0], b"1"), RemoteObject::new(&names[1], &large)];
    engine.replace(&objects, &limits()).unwrap();
    let mut found = Vec::new();
    let context = RemoteContext::new(Instant::now() + Duration::from_secs(2), None);
    let answer = engine.get_many(&names, &context, &mut |index, content| {
        // The first object is reported before the second has arrived.
        found.push((index, content.len()));
        server.suspend().unwrap();
    });
    server.resume()?;
    match answer {
        // The sockets hold some megabytes of the second.
        Err(RemoteError::TimedOut) => assert_eq!(found, [(0, 1)]),
        other => panic!("{other:?}, {found:?}"),
    }
    assert!(get(&*engine, &names).unwrap()[1].as_ref() == Some(&large));
    Ok(())
}
