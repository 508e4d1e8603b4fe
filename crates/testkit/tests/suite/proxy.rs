//! The proxy between real sockets: what each side sees.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use opkeep_testkit::proxy::{Direction, Fault, FaultKind, HangingPort, Proxy, ProxySettings};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(20);
/// What is too short for an answer that comes.
const SHORT: Duration = Duration::from_millis(100);

/// A server that answers each byte with two, the same one: `ab` with `aabb`. It ends each connection after its client's stream,
/// and serves any number of them at a time until the test program ends.
fn doubling_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || -> io::Result<()> {
                let mut buffer = [0; 4096];
                loop {
                    let length = stream.read(&mut buffer)?;
                    if length == 0 {
                        return Ok(());
                    }
                    let doubled: Vec<u8> = buffer[..length].iter().flat_map(|byte| [*byte; 2]).collect();
                    stream.write_all(&doubled)?;
                }
            });
        }
    });
    address
}

/// What a server read, and how reading failed.
type Received = (Vec<u8>, io::Result<()>);

/// A server that takes one connection, and returns what it read, or how reading failed.
fn listening_server() -> (SocketAddr, JoinHandle<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut read = Vec::new();
        let result = stream.read_to_end(&mut read).map(drop);
        (read, result)
    });
    (address, server)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends each of the requests, after the answer to the one before. Returns what came back, and the error.
fn dialogue(stream: &mut TcpStream, requests: &[&str]) -> (Vec<u8>, io::Result<()>) {
    let mut read = Vec::new();
    for request in requests {
        if let Err(error) = stream.write_all(request.as_bytes()) {
            return (read, Err(error));
        }
        let wanted = read.len() + 2 * request.len();
        while read.len() < wanted {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => read.push(byte[0]),
                Ok(_) => return (read, Err(ErrorKind::UnexpectedEof.into())),
                Err(error) => return (read, Err(error)),
            }
        }
    }
    (read, Ok(()))
}

fn after(at: u64, kind: FaultKind) -> ProxySettings {
    ProxySettings::with_fault(Fault::after(at, kind))
}

#[test]
fn nothing_changes_by_default_and_all_is_counted() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let mut one = connect(&proxy);
    let (read, result) = dialogue(&mut one, &["ab", "c", "def"]);
    result.unwrap();
    assert_eq!(read, b"aabbccddeeff");
    let mut two = connect(&proxy);
    dialogue(&mut two, &["x"]).1.unwrap();
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.open, counts.round_trips), (2, 2, 4));
    assert_eq!((counts.bytes_to_server, counts.bytes_to_client), (7, 14));
    // The end of one side's stream reaches the other.
    one.shutdown(Shutdown::Write).unwrap();
    assert_eq!(one.read(&mut [0]).unwrap(), 0);
    drop(two);
    wait_until(|| proxy.counts().open == 0);
}

#[test]
fn a_large_stream_passes_as_it_is_in_both_directions_at_once() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let mut stream = connect(&proxy);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let to_send = sent.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&to_send).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    writing.join().unwrap();
    assert_eq!(read.len(), 2 * sent.len());
    assert!(read.chunks(2).zip(&sent).all(|(pair, byte)| pair == [*byte; 2]));
}

/// All positions of a dialogue of 3 + 6 + 2 + 4 bytes.
#[test]
fn a_cut_comes_after_exactly_as_many_bytes() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let requests = ["abc", "de"];
    for kind in [FaultKind::Close, FaultKind::Reset] {
        for at in 0.. {
            proxy.set(after(at, kind)).unwrap();
            let before = proxy.counts();
            let (read, result) = dialogue(&mut connect(&proxy), &requests);
            if proxy.happened() == 0 {
                assert_eq!(at, 16, "{kind:?}");
                result.unwrap();
                break;
            }
            let counts = proxy.counts();
            let to_server = counts.bytes_to_server - before.bytes_to_server;
            let to_client = counts.bytes_to_client - before.bytes_to_client;
            assert_eq!(to_server + to_client, at, "{kind:?}");
            assert_eq!(read.len() as u64, to_client, "{kind:?} after {at}");
            assert_eq!(
                to_client,
                at.saturating_sub(3).min(6) + at.saturating_sub(11).min(4),
                "{kind:?} {at}"
            );
            match (result, kind) {
                // The last answer was whole.
                (result, _) if at == 15 => result.unwrap(),
                (Err(error), FaultKind::Close) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{at}"),
                (Err(error), _) => {
                    let is_reset = matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
                    assert!(is_reset, "{at}: {error}");
                }
                (Ok(()), _) => panic!("{kind:?} after {at} bytes did not reach the client"),
            }
            // Only once: the next connection is whole.
            dialogue(&mut connect(&proxy), &requests).1.unwrap();
        }
    }
}

#[test]
fn the_server_sees_a_cut_too() {
    for (kind, error) in [(FaultKind::Close, None), (FaultKind::Reset, Some(ErrorKind::ConnectionReset))] {
        let (address, server) = listening_server();
        let proxy = Proxy::start(address).unwrap();
        proxy.set(ProxySettings::with_fault(Fault::after(4, kind).only(Direction::ToServer))).unwrap();
        let mut stream = connect(&proxy);
        stream.write_all(b"abcdefgh").unwrap();
        let (read, result) = server.join().unwrap();
        assert_eq!(result.err().map(|error| error.kind()), error);
        assert_eq!(read, b"abcd");
    }
}

#[test]
fn each_connection_can_have_its_own_fault() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let fault = Fault::after(4, FaultKind::Close).only(Direction::ToClient).in_each_connection();
    proxy.set(ProxySettings::with_fault(fault)).unwrap();
    for _ in 0..3 {
        let (read, result) = dialogue(&mut connect(&proxy), &["abc"]);
        assert_eq!((&*read, result.unwrap_err().kind()), (&b"aabb"[..], ErrorKind::UnexpectedEof));
    }
    assert_eq!(proxy.happened(), 3);
}

#[test]
fn a_direction_ends_alone() {
    let (address, server) = listening_server();
    let proxy = Proxy::start(address).unwrap();
    let fault = Fault::after(2, FaultKind::HalfClose).only(Direction::ToServer);
    proxy.set(ProxySettings::with_fault(fault)).unwrap();
    let mut stream = connect(&proxy);
    stream.write_all(b"abcd").unwrap();
    assert_eq!(server.join().unwrap().0, b"ab");

    let proxy = Proxy::start(doubling_server()).unwrap();
    proxy.set(ProxySettings::with_fault(Fault { at: 2, ..fault })).unwrap();
    let mut stream = connect(&proxy);
    // Both answers still come, and nothing for the later bytes.
    stream.write_all(b"abcd").unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"aabb");
}

#[test]
fn silence_keeps_what_was_sent_for_later() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let mut stream = connect(&proxy);
    dialogue(&mut stream, &["a"]).1.unwrap();
    proxy.set(ProxySettings { is_silent: true, ..ProxySettings::default() }).unwrap();
    stream.write_all(b"b").unwrap();
    let mut new = connect(&proxy);
    new.write_all(b"c").unwrap();
    for stream in [&mut stream, &mut new] {
        stream.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.set_read_timeout(Some(LONG)).unwrap();
    }
    proxy.set(ProxySettings::default()).unwrap();
    for (mut stream, answer) in [(stream, b"bb"), (new, b"cc")] {
        let mut read = [0; 2];
        stream.read_exact(&mut read).unwrap();
        assert_eq!(&read, answer);
    }
}

#[test]
fn silence_can_begin_at_a_byte() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    proxy.set(after(5, FaultKind::Silence)).unwrap();
    let mut stream = connect(&proxy);
    stream.write_all(b"abc").unwrap();
    let mut read = [0; 2];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"aa");
    stream.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Other connections go on.
    dialogue(&mut connect(&proxy), &["abc"]).1.unwrap();
    // A proxy with a silent connection can end.
    drop(proxy);
}

#[test]
fn bytes_are_changed_at_their_position() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let answer = |fault: Fault, sent: &str| {
        proxy.set(ProxySettings::with_fault(fault)).unwrap();
        let mut stream = connect(&proxy);
        stream.write_all(sent.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut read = String::new();
        stream.read_to_string(&mut read).unwrap();
        assert_eq!(proxy.happened(), 1);
        read
    };
    let (to_server, to_client) = (Direction::ToServer, Direction::ToClient);
    assert_eq!(answer(Fault::after(1, FaultKind::Corrupt(0x20)).only(to_server), "abc"), "aaBBcc");
    assert_eq!(answer(Fault::after(1, FaultKind::Corrupt(0x20)).only(to_client), "abc"), "aAbbcc");
    // The dialogue's fifth byte is the answer's second.
    assert_eq!(answer(Fault::after(4, FaultKind::Corrupt(0x20)), "abc"), "aAbbcc");
    assert_eq!(answer(Fault::after(1, FaultKind::Repeat(2)).only(to_server), "abc"), "aabbccbbcc");
    assert_eq!(answer(Fault::after(0, FaultKind::Swap(1)).only(to_server), "abc"), "bbaacc");
    assert_eq!(answer(Fault::after(2, FaultKind::Omit(2)).only(to_client), "abc"), "aacc");
}

#[test]
fn connections_are_refused_and_accepted_again_on_the_same_port() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let mut open = connect(&proxy);
    dialogue(&mut open, &["a"]).1.unwrap();
    for _ in 0..20 {
        proxy.set(ProxySettings { refuses: true, ..ProxySettings::default() }).unwrap();
        let refused = TcpStream::connect(proxy.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.set(ProxySettings::default()).unwrap();
        dialogue(&mut connect(&proxy), &["a"]).1.unwrap();
    }
    dialogue(&mut open, &["b"]).1.unwrap();
}

#[test]
fn open_connections_are_closed_or_reset() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let mut stream = connect(&proxy);
    dialogue(&mut stream, &["a"]).1.unwrap();
    proxy.close_connections();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let mut stream = connect(&proxy);
    dialogue(&mut stream, &["a"]).1.unwrap();
    proxy.reset_connections();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    dialogue(&mut connect(&proxy), &["a"]).1.unwrap();
}

#[test]
fn a_server_that_resets_or_is_missing_is_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    let mut stream = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    // A connection that is closed with unread bytes is reset.
    stream.write_all(b"abc").unwrap();
    server.peek(&mut [0]).unwrap();
    drop(server);
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(listener);
    // Nobody listens there: the connection is closed at once.
    assert_eq!(connect(&proxy).read(&mut [0]).unwrap(), 0);
    proxy.set_server(doubling_server());
    dialogue(&mut connect(&proxy), &["a"]).1.unwrap();
}

/// Lower bounds only: a test machine may be slow.
#[test]
fn delay_and_bandwidth_take_their_time() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    let timed = |settings: ProxySettings, requests: &[&str]| {
        proxy.set(settings).unwrap();
        let mut stream = connect(&proxy);
        let began = Instant::now();
        dialogue(&mut stream, requests).1.unwrap();
        began.elapsed()
    };
    let delay = |to_server, to_client| ProxySettings {
        delay_to_server: Duration::from_millis(to_server),
        delay_to_client: Duration::from_millis(to_client),
        ..ProxySettings::default()
    };
    assert!(timed(delay(30, 20), &["a", "b"]) >= Duration::from_millis(100));
    // All bytes of a request have the delay at the same time.
    assert!(timed(delay(0, 50), &["abcdefghijklmnopqrstuvwxyz"]) >= Duration::from_millis(50));
    let slow = ProxySettings { bytes_per_second: Some(2_000), ..ProxySettings::default() };
    let request = "x".repeat(200);
    // 200 bytes one way take 100 ms.
    assert!(timed(slow, &[&request]) >= Duration::from_millis(100));
}

/// With a delay, a request in several parts is one round trip, although answers begin before its end.
#[test]
fn a_pipelined_request_is_one_round_trip() {
    let proxy = Proxy::start(doubling_server()).unwrap();
    proxy.set(ProxySettings { delay_to_client: 100 * LONG, ..ProxySettings::default() }).unwrap();
    let mut stream = connect(&proxy);
    for sent in 1..=5 {
        stream.write_all(b"a").unwrap();
        // The answer is on its way.
        wait_until(|| proxy.counts().bytes_to_server == sent);
    }
    assert_eq!(proxy.counts().round_trips, 1);
    // A proxy with bytes on their way can end.
    drop(proxy);
}

#[test]
fn connecting_to_a_hanging_port_gets_no_answer() {
    let port = HangingPort::start().unwrap();
    for _ in 0..2 {
        let error = TcpStream::connect_timeout(&port.address(), SHORT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LONG, "it did not come");
        thread::sleep(Duration::from_millis(1));
    }
}
