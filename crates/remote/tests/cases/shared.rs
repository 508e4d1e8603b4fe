//! What several clients are tested for in the same way, beside the [contract](crate::contract).
#![expect(clippy::disallowed_methods, reason = "these tests write files of keys")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::Failed;
use opkeep_cache::{Capabilities, ObjectName, PutAnswer, RemoteEngine, RemoteError, RemoteObject};
use opkeep_remote::{ClientCertificate, OpenOptions, open};
use opkeep_testkit::fork;
use opkeep_testkit::proxy::Proxy;
use opkeep_testkit::servers::{CertificateKind, Server, ServerKind, TestAuthority, TlsFiles};

use crate::contract::{answers_of_all_calls, content, get, limits};

/// One dialogue, about a name that is stored with [`CONTENT`], and a new one.
pub(crate) type Call = fn(&dyn RemoteEngine, &[ObjectName]) -> Result<(), RemoteError>;

/// Bytes that a text protocol could take for the end of a line.
pub(crate) const CONTENT: &[u8] = b"content\r\n";

pub(crate) const GET: (&str, Call) = ("get", |engine, names| {
    assert_eq!(get(engine, names)?, [Some(CONTENT.to_vec()), None]);
    Ok(())
});

pub(crate) const PUT: (&str, Call) = ("put", |engine, names| {
    let answers = engine.put_if_absent(&[RemoteObject::new(&names[1], CONTENT)], &limits())?;
    // A request that is sent again finds what it stored before.
    assert!(matches!(answers[..], [PutAnswer::Stored | PutAnswer::Existed]), "{answers:?}");
    assert_eq!(get(engine, &names[1..])?, [Some(CONTENT.to_vec())]);
    Ok(())
});

/// The children and their parent ask for different objects at the same time, over `proxy`.
pub(crate) fn ask_in_children(
    engine: &dyn RemoteEngine,
    proxy: &Proxy,
    name: fn(&str) -> ObjectName,
    times: usize,
) {
    let names: Vec<_> = (0..4).map(|number| name(&format!("e/{number}"))).collect();
    let contents: Vec<_> = (0..4).map(|number| content(30_000, number)).collect();
    for (name, content) in names.iter().zip(&contents) {
        engine.replace(&[RemoteObject::new(name, content)], &limits()).unwrap();
    }
    let ask = |number: usize| {
        for _ in 0..times {
            let found = get(engine, &names[number..=number]).unwrap();
            assert!(found[0].as_ref() == Some(&contents[number]), "another's answer");
        }
    };
    let children: Vec<_> = (0..3).map(|number| fork(move || ask(number), false)).collect();
    ask(3);
    assert!(children.into_iter().all(|child| child.wait()));
    // Each child made a connection, and the parent kept its own.
    assert_eq!(proxy.counts().connections, 4);
}

/// Objects of several sizes come back over an encrypted connection, and not over that of a client which does not trust the server.
pub(crate) fn ask_encrypted(
    trusting: &dyn RemoteEngine,
    other: &dyn RemoteEngine,
    name: fn(&str) -> ObjectName,
) {
    let sizes = [0, 10, 100_000, 5 << 20];
    let names = sizes.map(|size| name(&format!("of-{size}")));
    let contents = sizes.map(|size| content(size, 1));
    let objects: Vec<_> =
        names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
    trusting.replace(&objects, &limits()).unwrap();
    assert!(get(trusting, &names).unwrap() == contents.map(Some));
    match get(other, &names) {
        Err(RemoteError::Unreachable { reason }) => assert!(reason.contains("UnknownIssuer"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// The calls of all kinds that fail, about a name that no other call has.
pub(crate) fn refused_calls(engine: &dyn RemoteEngine, capabilities: &Capabilities) -> Vec<&'static str> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let name = ObjectName::new(format!("refused/{}", CALLS.fetch_add(1, Ordering::Relaxed))).unwrap();
    let answers = answers_of_all_calls(engine, capabilities, &[name], &limits());
    answers.into_iter().filter(|(_, answer)| answer.is_err()).map(|(call, _)| call).collect()
}

/// A server that serves only clients with a certificate of its authority gets one, and no other; a certificate that expired is
/// replaced without a new client.
pub(crate) fn ask_with_certificates(kind: ServerKind, name: fn(&str) -> ObjectName) -> Result<(), Failed> {
    let (authority, another) = (TestAuthority::create()?, TestAuthority::create()?);
    let server = Server::start_with_tls(kind, authority.issue(CertificateKind::Valid)?.for_known_clients())?;
    let client = |certificate: &Path, key: &Path| -> Arc<dyn RemoteEngine> {
        let mut options = OpenOptions::default();
        options.authorities = Some(authority.certificate());
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        options.client_certificate = Some(ClientCertificate { certificate, key });
        open(&server.url(), &options).unwrap()
    };
    let of = |files: &TlsFiles| client(&files.certificate, &files.key);
    let names = [name("certificates")];
    let found = |engine: &dyn RemoteEngine| get(engine, &names);
    let valid = authority.issue_for_client(CertificateKind::Valid)?;
    of(&valid).replace(&[RemoteObject::new(&names[0], CONTENT)], &limits()).unwrap();
    assert_eq!(found(&*of(&valid)), Ok(vec![Some(CONTENT.to_vec())]));

    // The server refuses these, each in its own words.
    let mut without = OpenOptions::default();
    without.authorities = Some(authority.certificate());
    let expired = authority.issue_for_client(CertificateKind::Expired)?;
    let refused = [
        open(&server.url(), &without).unwrap(),
        of(&expired),
        of(&another.issue_for_client(CertificateKind::Valid)?),
    ];
    for engine in refused {
        let answer = found(&*engine);
        assert!(matches!(answer, Err(RemoteError::Unreachable { .. })), "{answer:?}");
    }

    // These cannot be sent.
    let no_key = valid.certificate.with_file_name("no-key.pem");
    fs::copy(&valid.certificate, &no_key)?;
    fs::set_permissions(&no_key, Permissions::from_mode(0o600))?;
    let readable = valid.key.with_file_name("readable-key.pem");
    fs::copy(&valid.key, &readable)?;
    fs::set_permissions(&readable, Permissions::from_mode(0o644))?;
    let missing = authority.certificate().with_file_name("missing.pem");
    for (engine, expected) in [
        (client(&missing, &valid.key), "missing.pem"),
        (client(&valid.certificate, &missing), "missing.pem"),
        (client(&valid.key, &valid.key), "no certificate"),
        (client(&valid.certificate, &no_key), "no private key"),
        (client(&valid.certificate, &readable), "mode 0644"),
        (client(&valid.certificate, &expired.key), "cannot be used with the key"),
    ] {
        match found(&*engine) {
            Err(RemoteError::Refused { reason }) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{expected}: {other:?}"),
        }
    }

    // Both in one file, which expires and is replaced.
    let file = authority.certificate().with_file_name("both.pem");
    let engine = client(&file, &file);
    for (files, is_taken) in [(&expired, false), (&valid, true)] {
        replace_file(&file, files);
        assert_eq!(found(&*engine).is_ok(), is_taken);
    }
    Ok(())
}

/// A user replaces a certificate, with its key.
fn replace_file(file: &Path, parts: &TlsFiles) {
    let parts = [&parts.certificate, &parts.key].map(|part| fs::read_to_string(part).unwrap());
    fs::write(file, parts.concat()).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}
