//! A moto server whose conditional PUT has one winner.

use std::io;
use std::process::Command;

use super::certificates::TlsFiles;
use super::installed;

/// Moto looks whether an object exists, and then stores its own: of two threads, both may find none. Each PUT waits for the one before it
/// here, so that no test depends on the speed of these threads.
const PROGRAM: &str = "\
import threading
from moto.s3.responses import S3Response
from moto.server import main
lock, put = threading.Lock(), S3Response.put_object
def put_alone(self):
    with lock:
        return put(self)
S3Response.put_object = put_alone
main()";

/// The command that starts the server in the foreground.
pub(super) fn command(port: &str, tls: Option<&TlsFiles>) -> io::Result<Command> {
    if tls.is_some_and(|tls| tls.demands_clients) {
        let reason = "moto_server knows no certificates of clients";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let python = installed::of_tests("python").map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))?;
    let mut command = Command::new(python);
    command.args(["-c", PROGRAM, "-H", "127.0.0.1", "-p", port]);
    if let Some(tls) = tls {
        command.arg("-c").arg(&tls.certificate).arg("-k").arg(&tls.key);
    }
    Ok(command)
}
