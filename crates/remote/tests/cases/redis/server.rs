//! Starts Redis servers.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The reason why there is no server; `None` if there is one.
pub(crate) fn missing() -> Option<&'static str> {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    if version.is_ok_and(|status| status.success()) { None } else { Some("needs redis-server") }
}

/// A server on a port of its own, which ends with this value. It keeps nothing on disk.
pub(crate) struct RedisServer {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl RedisServer {
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_at(free_port(), options)
    }

    pub(crate) fn start_at(port: u16, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port_text = port.to_string();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port_text])
            .args(options)
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { process, port, _dir: dir };
        server.wait();
        server
    }

    fn wait(&mut self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert_eq!(self.process.try_wait().unwrap(), None, "redis-server ended");
            assert!(began.elapsed() < Duration::from_secs(60), "redis-server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a port that nothing listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
