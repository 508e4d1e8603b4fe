//! What several clients are tested for in the same way, beside the [contract](crate::contract).

use opkeep_cache::{ObjectName, PutAnswer, RemoteEngine, RemoteError, RemoteObject};
use opkeep_testkit::fork;
use opkeep_testkit::proxy::Proxy;

use crate::contract::{content, get, limits};

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
