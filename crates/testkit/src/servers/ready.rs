//! Waiting until a server answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::certificates::TlsFiles;
use super::installed;
use super::options::{S3_BUCKET, ServerKind};
use super::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The beginning of an HTTP/2 connection: the preface, and empty settings. A server answers with its own settings.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The type of that frame, the fourth byte.
const HTTP2_SETTINGS: u8 = 4;

/// Waits until a server that was just started answers. A moto server gets its bucket.
pub(super) fn wait(
    kind: &ServerKind,
    address: SocketAddr,
    tls: Option<&TlsFiles>,
    process: &mut Process,
) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let error = match answers(kind, address, tls) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if let Some(status) = process.status()? {
            return Err(io::Error::other(format!("it ended with {status}")));
        }
        if began.elapsed() > START_TIMEOUT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer, {error}")));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn answers(kind: &ServerKind, address: SocketAddr, tls: Option<&TlsFiles>) -> io::Result<()> {
    // The kernel lets a server that listens wait with the handshake until it serves.
    match (kind, tls) {
        (ServerKind::Redis(_) | ServerKind::BuildGrid(_) | ServerKind::S3sFs, Some(_)) => {
            TcpStream::connect(address).map(drop)
        }
        (ServerKind::Redis(_), None) => {
            let answer = exchange(address, b"PING\r\n", 5)?;
            // `-NOAUTH` from a server with a password; `-LOADING` while it reads its data.
            expect(answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAU"), &answer)
        }
        (ServerKind::Moto, None) => {
            let request =
                format!("PUT /{S3_BUCKET} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
            let answer = exchange(address, request.as_bytes(), 12)?;
            expect(answer.ends_with(b" 200"), &answer)
        }
        (ServerKind::Moto, Some(_)) => create_bucket_by_tls(address),
        (ServerKind::S3sFs, None) => {
            let request = format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n");
            let answer = exchange(address, request.as_bytes(), 5)?;
            expect(answer == b"HTTP/", &answer)
        }
        (ServerKind::BuildGrid(_), None) => {
            let answer = exchange(address, HTTP2_PREFACE, 4)?;
            expect(answer[3] == HTTP2_SETTINGS, &answer)
        }
    }
}

/// Sends a request, and returns the first `length` bytes of the answer.
fn exchange(address: SocketAddr, request: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request)?;
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn expect(is_expected: bool, answer: &[u8]) -> io::Result<()> {
    match is_expected {
        true => Ok(()),
        false => Err(io::Error::other(format!("it answered `{}`", String::from_utf8_lossy(answer)))),
    }
}

/// Moto is a Python program, whose Python has a client.
fn create_bucket_by_tls(address: SocketAddr) -> io::Result<()> {
    // For a certificate that does not fit the name, too.
    const PROGRAM: &str = "import ssl, sys, urllib.request as client
context = ssl._create_unverified_context()
client.urlopen(client.Request(sys.argv[1], method='PUT'), context=context, timeout=5)";
    // Without this, the start of Python would be repeated until the server listens.
    TcpStream::connect(address)?;
    let python = installed::of_tests("python").map_err(io::Error::other)?;
    let url = format!("https://{address}/{S3_BUCKET}");
    let output = Command::new(python).args(["-c", PROGRAM, &url]).current_dir("/").output()?;
    expect(output.status.success(), &output.stderr)
}
