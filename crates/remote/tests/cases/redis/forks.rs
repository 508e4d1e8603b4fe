//! A process that forks while it has connections.

use libtest_mimic::{Failed, Trial};
use opkeep_cache::RemoteObject;
use opkeep_testkit::fork;
use opkeep_testkit::proxy::Proxy;
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::{client, name};
use crate::contract::{content, get, limits};

pub(super) fn trials() -> Vec<Trial> {
    vec![trial("redis/forks/children do not use their parent's connection", ServerKind::redis(), children)]
}

/// The children and their parent ask for different objects at the same time.
fn children(server: Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let engine = client(&server.url_at(proxy.address()));
    let names: Vec<_> = (0..4).map(|number| name(&format!("e/{number}"))).collect();
    let contents: Vec<_> = (0..4).map(|number| content(30_000, number)).collect();
    for (name, content) in names.iter().zip(&contents) {
        engine.replace(&[RemoteObject::new(name, content)], &limits()).unwrap();
    }
    let ask = |number: usize| {
        for _ in 0..50 {
            let found = get(&*engine, &names[number..=number]).unwrap();
            assert!(found[0].as_ref() == Some(&contents[number]), "another's answer");
        }
    };
    let children: Vec<_> = (0..3).map(|number| fork(move || ask(number), false)).collect();
    ask(3);
    assert!(children.into_iter().all(|child| child.wait()));
    // Each child made a connection, and the parent kept its own.
    assert_eq!(proxy.counts().connections, 4);
    Ok(())
}
