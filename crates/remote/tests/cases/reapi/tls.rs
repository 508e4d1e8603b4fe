//! Encrypted connections.

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{RemoteError, RemoteObject};
use opkeep_remote::{OpenOptions, open};
use opkeep_testkit::servers::{
    BuildGridOptions, CertificateKind, Server, ServerKind, TestAuthority, trial_with,
};

use super::{client, name};
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    let kind = ServerKind::BuildGrid(BuildGridOptions::default());
    let missing = kind.missing().or_else(TestAuthority::missing);
    vec![trial_with("reapi/tls/objects over an encrypted connection", missing, encrypted)]
}

fn encrypted() -> Result<(), Failed> {
    let authority = TestAuthority::create()?;
    let kind = ServerKind::BuildGrid(BuildGridOptions::default());
    let server = Server::start_with_tls(kind, authority.issue(CertificateKind::Valid)?)?;
    assert!(server.url().starts_with("grpcs://"), "{}", server.url());
    let mut options = OpenOptions::default();
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
    // A client without TLS gets no answer that it takes for one.
    let answer = get(&*client(&format!("grpc://{}", server.address())), &names);
    let fits = matches!(answer, Err(RemoteError::Invalid { .. } | RemoteError::Unreachable { .. }));
    assert!(fits, "{answer:?}");
    Ok(())
}
