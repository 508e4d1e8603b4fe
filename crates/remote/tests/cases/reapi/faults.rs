//! Servers that end or do not answer, and connections that are cut at each byte.

use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{CancelToken, PutAnswer, RemoteContext, RemoteEngine, RemoteError, RemoteObject};
use opkeep_testkit::is_turn;
use opkeep_testkit::proxy::{Fault, FaultKind, HangingPort, Proxy, ProxySettings};
use opkeep_testkit::servers::{BuildGridOptions, Server, ServerKind, trial};

use super::fake::Fake;
use super::http2::Reply;
use super::{capabilities, client, name};
use crate::contract::{answers_of_all_calls, get, limits};
use crate::shared::{CONTENT, Call, GET, PUT, ask_in_children};

pub(super) fn trials() -> Vec<Trial> {
    let buildgrid = ServerKind::BuildGrid(BuildGridOptions::default());
    vec![
        Trial::test("reapi/faults/a connection cut at each byte", cut),
        Trial::test("reapi/faults/a server that never answers", silent),
        Trial::test("reapi/faults/a server that never stops sending", flood),
        Trial::test("reapi/faults/a server of another protocol", other_protocol),
        Trial::test("reapi/faults/children do not use their parent's connection", children),
        trial("reapi/faults/a restarted server is used again at once", buildgrid, restarted),
    ]
}

/// A name that is stored, and a new one, in each call.
const CALLS: [(&str, Call); 3] = [
    GET,
    PUT,
    ("replace", |engine, names| {
        engine.replace(&[RemoteObject::new(&names[0], CONTENT)], &limits())?;
        assert_eq!(get(engine, &names[..1])?, [Some(CONTENT.to_vec())]);
        Ok(())
    }),
];

/// An ordinary run cuts at every 24th byte.
const PARTS: usize = 24;

/// Cuts the connection once at each byte of each dialogue, new or idle. Whatever happened, no object is a part of one, and the next
/// call over the same client gets the answer to its own request.
fn cut() -> Result<(), Failed> {
    let fake = Fake::start();
    let direct = client(&fake.url());
    let proxy = Proxy::start(fake.address())?;
    let url = format!("grpc://{}", proxy.address());
    let (mut again, mut failed) = (0, 0);
    for (number, kind, is_idle) in [(0, FaultKind::Close, true), (1, FaultKind::Reset, false)] {
        for (call_name, call) in CALLS {
            for at in (0..).filter(|at| is_turn(at + number, PARTS)) {
                let place = format!("{call_name} at byte {at}, {kind:?}");
                let names =
                    [name(&format!("{call_name}/{at}")), name(&format!("{call_name}/{number}/{at}-new"))];
                direct.replace(&[RemoteObject::new(&names[0], CONTENT)], &limits()).unwrap();
                let engine = client(&url);
                if is_idle {
                    assert_eq!(get(&*engine, &[name("none")]), Ok(vec![None]));
                }
                proxy.set(ProxySettings::with_fault(Fault::after(at as u64, kind)))?;
                let answer = call(&*engine, &names);
                let has_happened = proxy.happened() > 0;
                proxy.set(ProxySettings::default())?;
                match &answer {
                    Ok(()) => again += u32::from(has_happened),
                    Err(RemoteError::Unreachable { .. }) => {
                        failed += 1;
                        assert!(has_happened, "{place}");
                    }
                    Err(other) => panic!("{place}: {other:?}"),
                }
                assert_eq!(get(&*engine, &names[..1]), Ok(vec![Some(CONTENT.to_vec())]), "{place}");
                let found = get(&*direct, &names[1..]).unwrap().remove(0);
                assert!(found.is_none_or(|found| found == CONTENT), "{place}");
                if !has_happened {
                    break;
                }
            }
        }
    }
    assert!(failed > 20 && again > 2, "{failed} failed, {again} were made again");
    Ok(())
}

/// Makes all calls, which end with `expected` soon after it is due.
fn all_end(engine: &dyn RemoteEngine, expected: &RemoteError, context: &RemoteContext<'_>) {
    let names = [name("a"), name("b")];
    for (call, answer) in answers_of_all_calls(engine, &capabilities(), &names, context) {
        assert_eq!(answer.as_ref(), Err(expected), "{call}");
    }
}

fn silent() -> Result<(), Failed> {
    let hanging = HangingPort::start()?;
    let proxy = Proxy::start(hanging.address())?;
    proxy.set(ProxySettings { is_silent: true, ..ProxySettings::default() })?;
    let mute = Fake::with(|_, _| Some(Reply::Never));
    let half = Fake::with(|method, _| (method != "GetCapabilities").then_some(Reply::Never));
    let urls = [
        format!("grpc://{}", hanging.address()),
        format!("grpc://{}", proxy.address()),
        mute.url(),
        half.url(),
    ];
    for url in urls {
        let engine = client(&url);
        let limit = Duration::from_millis(200);
        let names = [name("a")];
        let context = RemoteContext::new(Instant::now() + limit, None);
        assert_eq!(engine.get_many(&names, &context, &mut |_, _| panic!()), Err(RemoteError::TimedOut));
        assert!(context.deadline.elapsed() < Duration::from_secs(5), "{url}");
        all_end(&*engine, &RemoteError::TimedOut, &context);
        let cancel = CancelToken::new();
        let far = RemoteContext::new(Instant::now() + Duration::from_secs(600), Some(&cancel));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| engine.get_many(&names, &far, &mut |_, _| panic!()));
            cancel.cancel();
            assert_eq!(waiting.join().unwrap(), Err(RemoteError::Cancelled), "{url}");
        });
        all_end(&*engine, &RemoteError::Cancelled, &far);
    }
    Ok(())
}

fn other_protocol() -> Result<(), Failed> {
    for greeting in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", &[0; 64]] {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let engine = client(&format!("grpc://{}", listener.local_addr()?));
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(greeting).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                // Until the client has left.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
            let answer = get(&*engine, &[name("a")]);
            let fits = matches!(answer, Err(RemoteError::Invalid { .. } | RemoteError::Unreachable { .. }));
            assert!(fits, "{greeting:?}: {answer:?}");
        });
    }
    Ok(())
}

/// The children and their parent ask for different objects at the same time.
fn children() -> Result<(), Failed> {
    let fake = Fake::start();
    let proxy = Proxy::start(fake.address())?;
    let engine = client(&format!("grpc://{}", proxy.address()));
    ask_in_children(&*engine, &proxy, name, 20);
    Ok(())
}

/// The server's memory is empty after a restart: what was stored is missing, which is no error.
fn restarted(mut server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let names = [name("a")];
    let has_stored = || {
        assert_eq!(get(&*engine, &names), Ok(vec![None]));
        let stored = engine.put_if_absent(&[RemoteObject::new(&names[0], b"1")], &limits());
        assert_eq!(stored, Ok(vec![PutAnswer::Stored]));
        assert_eq!(get(&*engine, &names), Ok(vec![Some(b"1".to_vec())]));
    };
    has_stored();
    // The idle connection is closed; nothing of that is seen.
    server.restart()?;
    has_stored();
    server.kill()?;
    let answer = get(&*engine, &names);
    assert!(matches!(answer, Err(RemoteError::Unreachable { .. })), "{answer:?}");
    Ok(())
}

/// The time after which the flood ends, so that the trial does.
const FLOOD: Duration = Duration::from_secs(30);

/// A server that sends frames faster than the client parses them. Calls end at their deadlines and when they are cancelled.
fn flood() -> Result<(), Failed> {
    // PRIORITY of a stream, and an answer to no PING.
    let frames: [&[u8]; 2] =
        [&[0, 0, 5, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 7], &[0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]];
    for frame in frames {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let engine = client(&format!("grpc://{}", listener.local_addr()?));
        let server = thread::spawn(move || {
            // One connection for each call.
            let floods = (0..2).map(|_| listener.accept().unwrap().0).map(|mut stream| {
                thread::spawn(move || {
                    let (parts, began) = (frame.repeat(100_000), Instant::now());
                    let mut sent = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
                    while sent.is_ok() && began.elapsed() < FLOOD {
                        sent = stream.write_all(&parts);
                    }
                })
            });
            floods.for_each(|flood| flood.join().unwrap());
        });
        let began = Instant::now();
        let late = RemoteContext::new(began + Duration::from_millis(500), None);
        assert_eq!(get_within(&*engine, &late), Err(RemoteError::TimedOut));
        let cancel = CancelToken::new();
        let cancelled = RemoteContext::new(began + Duration::from_secs(600), Some(&cancel));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(500));
                cancel.cancel();
            });
            assert_eq!(get_within(&*engine, &cancelled), Err(RemoteError::Cancelled));
        });
        assert!(began.elapsed() < FLOOD, "{:?}", began.elapsed());
        drop(engine);
        server.join().unwrap();
    }
    Ok(())
}

fn get_within(engine: &dyn RemoteEngine, context: &RemoteContext<'_>) -> Result<(), RemoteError> {
    engine.get_many(&[name("object")], context, &mut |_, _| ())
}
