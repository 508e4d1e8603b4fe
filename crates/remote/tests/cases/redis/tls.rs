//! Encrypted connections.

use std::path::Path;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{RemoteEngine, RemoteError, RemoteObject};
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::servers::{CertificateKind, RedisOptions, Server, ServerKind, TestAuthority, trial_with};

use super::{client, name};
use crate::contract::{content, get, limits};
use crate::shared::ask_with_certificates;

pub(super) fn trials() -> Vec<Trial> {
    let missing = || ServerKind::redis().missing().or_else(TestAuthority::missing);
    vec![
        trial_with("redis/tls/objects over an encrypted connection", missing(), encrypted),
        trial_with("redis/tls/a certificate that is not trusted is refused", missing(), untrusted),
        trial_with("redis/tls/one side speaks TLS and the other does not", missing(), mismatch),
        trial_with("redis/tls/a server that ends is used again at once", missing(), restarted),
        trial_with("redis/tls/a file of authorities that is none", missing(), authorities),
        trial_with("redis/tls/a server that demands certificates of its clients", missing(), || {
            ask_with_certificates(ServerKind::redis(), name)
        }),
    ]
}

fn server(authority: &TestAuthority, kind: CertificateKind) -> Server {
    let options = RedisOptions { password: Some("hunter2".to_owned()), ..RedisOptions::default() };
    Server::start_with_tls(ServerKind::Redis(options), authority.issue(kind).unwrap()).unwrap()
}

fn client_with(url: &str, authorities: &Path) -> Arc<dyn RemoteEngine> {
    let mut options = OpenOptions::default();
    options.authorities = Some(authorities.to_owned());
    open(url, &options).unwrap()
}

fn encrypted() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let server = server(&authority, CertificateKind::Valid);
    assert!(server.url().starts_with("rediss://"), "{}", server.url());
    let by_name = server.url().replace("127.0.0.1", "localhost");
    for url in [server.url(), by_name] {
        let engine = client_with(&url, &authority.certificate());
        for size in [0, 10, 100_000, 5 << 20] {
            let (name, bytes) = (name(&format!("of-{size}")), content(size, 1));
            engine.replace(&[RemoteObject::new(&name, &bytes)], &limits()).unwrap();
            assert!(get(&*engine, &[name]).unwrap() == [Some(bytes)], "{size}");
        }
    }
    Ok(())
}

fn assert_untrusted(engine: &dyn RemoteEngine, expected: &str) {
    match get(engine, &[name("a")]) {
        Err(RemoteError::Unreachable { reason }) => assert!(reason.contains(expected), "{reason}"),
        other => panic!("{other:?}"),
    }
}

fn untrusted() -> Result<(), Failed> {
    let (authority, another) = (TestAuthority::create()?, TestAuthority::create()?);
    for kind in [CertificateKind::Expired, CertificateKind::OtherName] {
        let server = server(&authority, kind);
        assert_untrusted(&*client_with(&server.url(), &authority.certificate()), "invalid peer certificate");
    }
    let server = server(&authority, CertificateKind::Valid);
    assert_untrusted(&*client_with(&server.url(), &another.certificate()), "invalid peer certificate");
    assert_untrusted(&*client(&server.url()), "invalid peer certificate");
    Ok(())
}

fn mismatch() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let encrypted = server(&authority, CertificateKind::Valid);
    for user in ["", ":password@"] {
        let url = format!("redis://{user}{}", encrypted.address());
        let error = get(&*client(&url), &[name("a")]).unwrap_err().to_string();
        assert!(error.contains("demands TLS"), "{error}");
    }
    // Redis waits for the end of what it takes for a command. The call would wait for minutes.
    for password in [None, Some("hunter2".to_owned())] {
        let plain = Server::start(ServerKind::Redis(RedisOptions { password, ..RedisOptions::default() }))?;
        let engine = client_with(&format!("rediss://{}", plain.address()), &authority.certificate());
        let error = get(&*engine, &[name("a")]).unwrap_err().to_string();
        assert!(error.contains("answers without TLS"), "{error}");
    }
    Ok(())
}

fn restarted() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let mut server = server(&authority, CertificateKind::Valid);
    let engine = client_with(&server.url(), &authority.certificate());
    for _ in 0..3 {
        assert_eq!(get(&*engine, &[name("a")]), Ok(vec![None]));
        server.restart()?;
    }
    assert_eq!(get(&*engine, &[name("a")]), Ok(vec![None]));
    Ok(())
}

fn authorities() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let server = server(&authority, CertificateKind::Valid);
    let directory = tempfile::tempdir()?;
    let missing = directory.path().join("missing.pem");
    assert_untrusted(&*client_with(&server.url(), &missing), "missing.pem");
    // A private key is no certificate.
    let key = authority.issue(CertificateKind::Valid)?.key;
    assert_untrusted(&*client_with(&server.url(), &key), "no certificate");
    Ok(())
}
