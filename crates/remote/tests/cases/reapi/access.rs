//! What a server refuses.

use libtest_mimic::Failed;
use opkeep_cache::{PutAnswer, RemoteError, RemoteObject};

use super::{client, name};
use crate::contract::{get, limits};

pub(super) fn unknown_instance(url: &str) -> Result<(), Failed> {
    let engine = client(&format!("{url}/team/a"));
    let (names, objects) = ([name("a")], [name("b")]);
    let answers = [
        get(&*engine, &names).map(drop),
        engine.put_if_absent(&[RemoteObject::new(&objects[0], b"1")], &limits()).map(drop),
        engine.capabilities(&limits()).map(drop),
    ];
    for answer in answers {
        match answer {
            Err(RemoteError::Refused { reason }) => assert!(reason.contains("team/a"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

pub(super) fn write_once(url: &str) -> Result<(), Failed> {
    let engine = client(url);
    let name = name("access/once");
    let object = |content| [RemoteObject::new(&name, content)];
    assert_eq!(engine.replace(&object(b"1"), &limits()), Ok(()));
    assert_eq!(engine.replace(&object(b"1"), &limits()), Ok(()));
    match engine.replace(&object(b"2"), &limits()) {
        Err(RemoteError::Refused { reason }) => assert!(reason.contains("does not replace"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(engine.put_if_absent(&object(b"2"), &limits()), Ok(vec![PutAnswer::Existed]));
    assert_eq!(get(&*engine, std::slice::from_ref(&name)), Ok(vec![Some(b"1".to_vec())]));
    Ok(())
}
