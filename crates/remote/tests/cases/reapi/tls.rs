//! Encrypted connections.

use libtest_mimic::{Failed, Trial};
use opkeep_cache::RemoteError;
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::servers::{
    BuildGridOptions, CertificateKind, Server, ServerKind, TestAuthority, trial_with,
};

use super::{client, name};
use crate::contract::get;
use crate::shared::{ask_encrypted, ask_with_certificates};

pub(super) fn trials() -> Vec<Trial> {
    let kind = ServerKind::BuildGrid(BuildGridOptions::default());
    let missing = kind.missing().or_else(TestAuthority::missing);
    vec![
        trial_with("reapi/tls/objects over an encrypted connection", missing.clone(), encrypted),
        trial_with("reapi/tls/a server that demands certificates of its clients", missing, || {
            ask_with_certificates(ServerKind::BuildGrid(BuildGridOptions::default()), name)
        }),
    ]
}

fn encrypted() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let kind = ServerKind::BuildGrid(BuildGridOptions::default());
    let server = Server::start_with_tls(kind, authority.issue(CertificateKind::Valid)?)?;
    assert!(server.url().starts_with("grpcs://"), "{}", server.url());
    let mut options = OpenOptions::default();
    options.authorities = Some(authority.certificate());
    let engine = open(&server.url(), &options).unwrap();
    ask_encrypted(&*engine, &*client(&server.url()), name);
    // A client without TLS gets no answer that it takes for one.
    let answer = get(&*client(&format!("grpc://{}", server.address())), &[name("of-10")]);
    let fits = matches!(answer, Err(RemoteError::Invalid { .. } | RemoteError::Unreachable { .. }));
    assert!(fits, "{answer:?}");
    Ok(())
}
