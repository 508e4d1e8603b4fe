//! The real servers: each starts, keeps its port, and ends with its test program.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::servers::{
    BuildGridOptions, CertificateKind, RedisOptions, S3_BUCKET, Server, ServerKind, SharedServer,
    TestAuthority, trial, trial_with,
};

const LONG: Duration = Duration::from_secs(20);

/// The argument with which this program starts a server, tells where, and is aborted.
pub(crate) const ABORTED: &str = "aborted-with-a-server";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = ServerKind::all()
        .into_iter()
        .map(|kind| {
            let once = matches!(kind, ServerKind::BuildGrid(BuildGridOptions { is_write_once: true }));
            let name = if once { format!("{kind}, write once") } else { kind.to_string() };
            trial(format!("servers: {name} starts, is killed, and starts again"), kind, starts_again)
        })
        .collect();
    let redis = SharedServer::new(ServerKind::redis());
    let persistent = RedisOptions { is_persistent: true, ..RedisOptions::default() };
    let limited = RedisOptions {
        memory: Some((1 << 20, "allkeys-lru")),
        password: Some("secret".to_owned()),
        ..RedisOptions::default()
    };
    trials.extend([
        redis.trial(
            "servers: a shared server outlives the thread that starts it",
            outlives_its_thread(&redis),
        ),
        trial("servers: a suspended Redis is silent", ServerKind::redis(), is_silent),
        trial(
            "servers: a persistent Redis has its keys after a kill",
            ServerKind::Redis(persistent),
            persists,
        ),
        trial("servers: a Redis with a limit and a password", ServerKind::Redis(limited), has_options),
        trial(
            "servers: of conditional PUTs to moto, the second is refused",
            ServerKind::Moto,
            refuses_second,
        ),
        trial_with(
            "servers: a server ends with its test program",
            ServerKind::redis().missing(),
            ends_with_parent,
        ),
    ]);
    let with_tls =
        [ServerKind::redis(), ServerKind::Moto, ServerKind::BuildGrid(BuildGridOptions::default())];
    trials.extend(with_tls.map(|kind| {
        let missing = kind.missing().or_else(TestAuthority::missing);
        trial_with(format!("servers: {kind} with TLS"), missing, move || speaks_tls(&kind))
    }));
    trials
}

/// Starts a server, tells its process number and port, and aborts: no destructor runs.
pub(crate) fn abort_with_server() -> Result<(), Failed> {
    let server = Server::start(ServerKind::redis())?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", server.address())?;
    stdout.flush()?;
    std::process::abort()
}

fn starts_again(mut server: Server) -> Result<(), Failed> {
    let address = server.address();
    assert!(server.url().contains(&address.to_string()), "{}", server.url());
    let first = server.process_id().ok_or("it has no process")?;
    assert!(!server.log().is_empty());
    server.kill()?;
    assert_eq!(server.process_id(), None);
    assert!(is_refused(address));
    server.restart()?;
    assert_eq!(server.address(), address);
    assert_ne!(server.process_id(), Some(first));
    TcpStream::connect(address)?;
    server.stop()?;
    assert!(is_refused(address));
    Ok(())
}

fn outlives_its_thread(redis: &SharedServer) -> impl FnOnce(&Server) -> Result<(), Failed> + use<> {
    let shared = redis.clone();
    move |server| {
        // In a thread that ends before the next request.
        let other = thread::spawn(move || -> Result<_, Failed> {
            Ok((shared.get()?.process_id(), Server::start(ServerKind::redis())?))
        });
        let (process, own) = other.join().map_err(|_| "the thread panicked")??;
        assert_eq!(process, server.process_id());
        for server in [server, &own] {
            assert_eq!(ask(server.address(), "PING")?, "+PONG");
        }
        Ok(())
    }
}

fn is_silent(server: Server) -> Result<(), Failed> {
    server.suspend()?;
    let mut stream = TcpStream::connect(server.address())?;
    stream.write_all(b"PING\r\n")?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    assert!(stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    server.resume()?;
    stream.set_read_timeout(Some(LONG))?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"+PONG");
    // A suspended server ends, too.
    server.suspend()?;
    Ok(())
}

fn persists(mut server: Server) -> Result<(), Failed> {
    assert_eq!(ask(server.address(), "SET key value")?, "+OK");
    // While it runs: it is killed.
    server.restart()?;
    assert_eq!(ask(server.address(), "STRLEN key")?, ":5");
    Ok(())
}

fn has_options(server: Server) -> Result<(), Failed> {
    let address = server.address();
    assert!(server.url().contains(":secret@"));
    assert!(ask(address, "PING")?.starts_with("-NOAUTH"));
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(b"AUTH secret\r\nCONFIG GET maxmemory*\r\nQUIT\r\n")?;
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    assert!(answers.contains("1048576") && answers.contains("allkeys-lru"), "{answers}");
    Ok(())
}

fn refuses_second(server: Server) -> Result<(), Failed> {
    let put = |name: &str| -> Result<String, Failed> {
        let address = server.address();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LONG))?;
        // Moto does not check signatures; without one it treats the client as anonymous.
        let credentials = "AWS4-HMAC-SHA256 Credential=AK/20260101/us-east-1/s3/aws4_request";
        write!(
            stream,
            "PUT /{S3_BUCKET}/{name} HTTP/1.0\r\nHost: {address}\r\nAuthorization: {credentials}\r\n\
             If-None-Match: *\r\nContent-Length: 1\r\n\r\nx"
        )?;
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status)?;
        Ok(status.split(' ').nth(1).unwrap_or_default().to_owned())
    };
    assert_eq!([put("a")?, put("a")?, put("b")?], ["200", "412", "200"]);
    Ok(())
}

fn ends_with_parent() -> Result<(), Failed> {
    // For the files of the server, which stay.
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.arg(ABORTED).env("TMPDIR", directory.path()).stderr(Stdio::null()).output()?;
    assert!(!output.status.success());
    let address: SocketAddr = String::from_utf8(output.stdout)?.trim().parse()?;
    let began = Instant::now();
    while !is_refused(address) {
        assert!(began.elapsed() < LONG, "the server is still there");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn speaks_tls(kind: &ServerKind) -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let all = [CertificateKind::Valid, CertificateKind::OtherName, CertificateKind::Expired];
    // Python programs take seconds to start.
    let certificates = if *kind == ServerKind::redis() { &all[..] } else { &all[..1] };
    for certificate in certificates.iter().copied() {
        let server = Server::start_with_tls(kind.clone(), authority.issue(certificate)?)?;
        let scheme = server.url();
        assert!(scheme.starts_with("rediss:") || scheme.starts_with("grpcs:") || scheme.contains("=https:"));
        let output = Command::new("openssl")
            .args(["s_client", "-verify_return_error", "-verify_ip", "127.0.0.1", "-alpn", "h2", "-CAfile"])
            .arg(authority.certificate())
            .args(["-connect", &server.address().to_string()])
            .stdin(Stdio::null())
            .output()?;
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_accepted = shown.contains("Verify return code: 0 (ok)");
        assert_eq!(is_accepted, certificate == CertificateKind::Valid, "{certificate:?}: {shown}");
    }
    Ok(())
}

/// The first line of Redis's answer.
fn ask(address: SocketAddr, command: &str) -> Result<String, Failed> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    write!(stream, "{command}\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
