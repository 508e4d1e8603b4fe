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
use std::net::TcpStream;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use http::Request;
use opkeep_benches::{Figure, Turns};
use opkeep_cache::{Digest, ObjectName};
use opkeep_testkit::grpc::{Socket, field, framed, number, slices};
use opkeep_testkit::servers::{BuildGridOptions, Server, ServerKind};

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
    framed(&[field(2, &digest(&action.concat())), field(5, b"object")].concat()).into()
}

fn digest(content: &[u8]) -> Vec<u8> {
    let hash = field(1, Digest::of(content).to_string().as_bytes());
    if content.is_empty() { hash } else { [hash, number(2, content.len() as u64)].concat() }
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
        let socket = Socket::new(TcpStream::connect(server.address()).unwrap()).unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(4 << 20).initial_connection_window_size(16 << 20);
        let (requests, connection) = socket.block_on(builder.handshake(socket.clone())).unwrap().unwrap();
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
                let file = slices(&result[5..], 2)[0];
                field(2, slices(file, 2)[0])
            });
            let request = digests.collect::<Vec<_>>().concat();
            let answer = call(READ, framed(&request).into()).await;
            slices(&answer[5..], 1).into_iter().map(|blob| slices(blob, 2)[0].to_vec()).collect()
        };
        let mut work = pin!(work);
        let answer = socket.block_on(poll_fn(|waker| {
            assert!(pin!(&mut *connection).poll(waker).is_pending(), "the server ends the connection");
            work.as_mut().poll(waker)
        }));
        answer.unwrap()
    }
}
