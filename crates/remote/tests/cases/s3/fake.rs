//! A server in the test's process, with the answers that a test sets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What is sent, and whether the connection stays open.
pub(super) type Answer = (Vec<u8>, Then);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Close,
}

/// A server, and the heads of the requests that it got.
pub(super) struct Fake {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Starts a server, which calls `answer` with the head of each request.
    pub(super) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heads, answer) = (listener.local_addr().unwrap(), Arc::default(), Arc::new(answer));
        let fake = Self { address, heads: Arc::clone(&heads) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heads, answer) = (Arc::clone(&heads), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &heads, &*answer));
            }
        });
        fake
    }

    /// A server that gives this answer to all requests, and keeps connections open.
    pub(super) fn with(answer: Vec<u8>) -> Self {
        Self::start(move |_| (answer.clone(), Then::Keep))
    }

    pub(super) fn url(&self) -> String {
        format!("s3://bucket/cache?endpoint=http://{}", self.address)
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, heads: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> Answer) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let end = loop {
            if let Some(place) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                break place + 4;
            }
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            }
        };
        let head = String::from_utf8(bytes.drain(..end).collect()).unwrap();
        let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        while bytes.len() < length {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            }
        }
        bytes.drain(..length);
        heads.lock().unwrap().push(head.clone());
        let (sent, then) = answer(&head);
        if stream.write_all(&sent).is_err() || then == Then::Close {
            return;
        }
    }
}

/// The value of a header.
pub(super) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
}

/// An answer with a body.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// An answer that is an error of S3.
pub(super) fn error(status: u16, code: &str, message: &str) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    answer(status, "Content-Type: application/xml\r\n", &body)
}
