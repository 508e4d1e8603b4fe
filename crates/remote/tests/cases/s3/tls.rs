//! Encrypted connections.

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{RemoteError, RemoteObject};
use opkeep_remote::open;
use opkeep_testkit::servers::{CertificateKind, Server, ServerKind, TestAuthority, trial_with};

use super::{KEYS, client, name, options};
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    let missing = ServerKind::Moto.missing().or_else(TestAuthority::missing);
    vec![trial_with("s3/tls/objects over an encrypted connection", missing, encrypted)]
}

fn encrypted() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let server = Server::start_with_tls(ServerKind::Moto, authority.issue(CertificateKind::Valid)?)?;
    let mut options = options(&KEYS);
    options.authorities = Some(authority.certificate());
    let engine = open(&server.url(), &options).unwrap();
    let sizes = [0, 10, 100_000, 5 << 20];
    let names = sizes.map(|size| name(&format!("of-{size}")));
    let contents = sizes.map(|size| content(size, 1));
    let objects: Vec<_> =
        names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
    engine.replace(&objects, &limits()).unwrap();
    assert!(get(&*engine, &names).unwrap() == contents.map(Some));
    match get(&*client(&server.url()), &names) {
        Err(RemoteError::Unreachable { reason }) => assert!(reason.contains("UnknownIssuer"), "{reason}"),
        other => panic!("{other:?}"),
    }
    Ok(())
}
