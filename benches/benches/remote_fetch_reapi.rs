//! Question: what does it cost to fetch the kernels of a build from a server of the Remote Execution API into an empty local store,
//! compared with the least work?
//!
//! The floor is the sum of what cannot be left out, on one connection and one thread: a bare client's `GetActionResult` for each kernel,
//! 4 at the same time, and one `BatchReadBlobs`; SHA-256 of each entry, the validator on each kernel, and a put of each into an empty
//! store. The bare client decodes no more than the digests and the data, and its requests are made before. Both sides are connected
//! before, and take turns. Most of the time is the server's, a Python program: so the figure says what a user waits there, and the ratio
//! what this client adds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be set up has no figures")]
#![expect(clippy::print_stdout, reason = "the table is what this is for")]

mod common;
#[path = "common/remote_kernels.rs"]
mod remote_kernels;

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use http::Request;
use opkeep_benches::{Figure, Turns};
use opkeep_cache::{Digest, ObjectName};
use opkeep_testkit::servers::{BuildGridOptions, Server, ServerKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use remote_kernels::{engine, fetch, kernels, least_work, names, print, store};

const GET: &str = "/build.bazel.remote.execution.v2.ActionCache/GetActionResult";
const READ: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchReadBlobs";
/// The number of calls at the same time: the server refuses more than it has threads, which are 6 with two processors.
const AT_ONCE: usize = 4;

fn main() {
    let kind = ServerKind::BuildGrid(BuildGridOptions::default());
    if let Some(missing) = kind.missing() {
        println!("left out: {missing}");
        return;
    }
    let kernels = kernels();
    let server = Server::start(kind).unwrap();
    let engine = engine(&server.url());
    let bytes = store(&engine, &kernels);
    let requests: Vec<_> = names(&kernels).iter().map(request).collect();
    let mut bare = Bare::connect(&server);
    let mut parts = [const { Vec::new() }; 4];
    let turns = Turns::take(
        Duration::from_secs(10),
        [&mut || least_work(&kernels, || bare.get(&requests), &mut parts), &mut || fetch(&engine, &kernels)],
    );
    let ratios @ [low, ratio, high] = turns.ratio(1, 0);
    print(&kernels, bytes, &turns, "bare calls", parts);
    println!("  fetch {:.1?}, {low:.2} {ratio:.2} {high:.2} times the floor", turns.median(1));
    let figure = Figure::new("remote_fetch_reapi", "warm fetch from BuildGrid").entries(kernels.len());
    figure.bytes(bytes).times(turns.median(1), turns.median(0)).ratio(ratios).note();
}

/// The request for the result of an object's action. `opkeep_remote` says what an action is.
fn request(name: &ObjectName) -> Bytes {
    let command = [field(1, b"opkeep"), field(7, b"object")].concat();
    let action =
        [field(1, &digest(&command)), field(2, &digest(b"")), field(9, format!("\0{name}").as_bytes())];
    framed(&[field(2, &digest(&action.concat())), field(5, b"object")].concat())
}

fn digest(content: &[u8]) -> Vec<u8> {
    let hash = field(1, Digest::of(content).to_string().as_bytes());
    match content.len() {
        0 => hash,
        length => [hash, vec![2 << 3], varint(length)].concat(),
    }
}

/// A field that is a text, bytes or a message.
fn field(tag: u8, value: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2], &varint(value.len())[..], value].concat()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn take_varint(rest: &mut &[u8]) -> usize {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, after) = rest.split_first().unwrap();
        *rest = after;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The values of a field that is a text, bytes or a message.
fn fields(message: &[u8], tag: usize) -> Vec<&[u8]> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let head = take_varint(&mut rest);
        let value = take_varint(&mut rest);
        if head & 7 == 2 {
            let (bytes, after) = rest.split_at(value);
            rest = after;
            if head >> 3 == tag {
                found.push(bytes);
            }
        }
    }
    found
}

fn framed(message: &[u8]) -> Bytes {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat().into()
}

/// A client that checks nothing, with one connection.
struct Bare {
    socket: Socket,
    authority: String,
    requests: SendRequest<Bytes>,
    connection: Connection<Socket, Bytes>,
}

impl Bare {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let socket = Socket(Arc::new(Mutex::new((stream, false))));
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(4 << 20).initial_connection_window_size(16 << 20);
        let (requests, connection) = socket.block_on(builder.handshake(socket.clone())).unwrap();
        Self { authority: server.address().to_string(), socket, requests, connection }
    }

    /// Returns the content of all objects.
    fn get(&mut self, requests: &[Bytes]) -> Vec<Vec<u8>> {
        let Self { socket, authority, requests: client, connection } = self;
        let call = |method: &'static str, message: Bytes| {
            let (client, authority) = (client.clone(), authority.as_str());
            async move {
                let head = Request::post(format!("http://{authority}{method}"))
                    .header("te", "trailers")
                    .header("content-type", "application/grpc");
                let mut client = client.ready().await.unwrap();
                let (response, mut stream) = client.send_request(head.body(()).unwrap(), false).unwrap();
                stream.send_data(message, true).unwrap();
                let mut body = response.await.unwrap().into_body();
                let mut bytes = Vec::new();
                while let Some(data) = body.data().await {
                    let data = data.unwrap();
                    body.flow_control().release_capacity(data.len()).unwrap();
                    bytes.extend_from_slice(&data);
                }
                let trailers = body.trailers().await.unwrap().unwrap();
                assert_eq!(trailers["grpc-status"], "0");
                bytes
            }
        };
        let work = async {
            let mut results = vec![Vec::new(); requests.len()];
            let mut open = Vec::new();
            let mut next = 0;
            poll_fn(|waker| {
                loop {
                    while open.len() < AT_ONCE && next < requests.len() {
                        open.push((next, Box::pin(call(GET, requests[next].clone()))));
                        next += 1;
                    }
                    let before = open.len();
                    open.retain_mut(|(number, call)| match call.as_mut().poll(waker) {
                        Poll::Ready(bytes) => {
                            results[*number] = bytes;
                            false
                        }
                        Poll::Pending => true,
                    });
                    if open.is_empty() && next == requests.len() {
                        return Poll::Ready(());
                    }
                    if open.len() == before {
                        return Poll::Pending;
                    }
                }
            })
            .await;
            let digests = results.iter().map(|result| {
                let file = fields(&result[5..], 2)[0];
                field(2, fields(file, 2)[0])
            });
            let request = digests.collect::<Vec<_>>().concat();
            let answer = call(READ, framed(&request)).await;
            fields(&answer[5..], 1).into_iter().map(|blob| fields(blob, 2)[0].to_vec()).collect()
        };
        let mut work = pin!(work);
        socket.block_on(poll_fn(|waker| {
            assert!(pin!(&mut *connection).poll(waker).is_pending(), "the server ends the connection");
            work.as_mut().poll(waker)
        }))
    }
}

/// A socket that does not block, and whether bytes wait to be written.
#[derive(Clone)]
struct Socket(Arc<Mutex<(TcpStream, bool)>>);

impl Socket {
    /// Polls until the end of the work, and waits for the socket in between.
    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            // What wakes itself is polled at once: nothing else takes the processor here.
            for _ in 0..2 {
                if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    return value;
                }
            }
            let (stream, is_blocked) = &*self.0.lock().unwrap();
            let mut flags = rustix::event::PollFlags::IN;
            flags.set(rustix::event::PollFlags::OUT, *is_blocked);
            let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            rustix::event::poll(&mut [rustix::event::PollFd::new(stream, flags)], Some(&wait)).unwrap();
        }
    }
}

fn poll<T>(answer: io::Result<T>) -> Poll<io::Result<T>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        answer => Poll::Ready(answer),
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let answer = poll(self.0.lock().unwrap().0.read(buffer.initialize_unfilled()));
        answer.map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut socket = self.0.lock().unwrap();
        let answer = poll(socket.0.write(bytes));
        socket.1 = answer.is_pending();
        answer
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
