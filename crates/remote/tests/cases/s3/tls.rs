//! Encrypted connections.

use libtest_mimic::{Failed, Trial};
use opkeep_remote::open;
use opkeep_testkit::servers::{CertificateKind, Server, ServerKind, TestAuthority, trial_with};

use super::{KEYS, client, name, options};
use crate::shared::ask_encrypted;

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
    ask_encrypted(&*engine, &*client(&server.url()), name);
    Ok(())
}
