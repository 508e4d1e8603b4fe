//! Users, passwords and what they may do.

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimTerms, RemoteError, RemoteObject};
use opkeep_remote::check::Access;
use opkeep_testkit::servers::{RedisOptions, Server, ServerKind, trial};

use super::{capabilities, client, name, send};
use crate::contract::{answers_of_all_calls, get, lease, limits};
use crate::shared::refused_calls;

const PASSWORD: &str = "p/a ss:w@rd";
/// The same, as it stands in a URL.
const ENCODED: &str = "p%2Fa%20ss:w@rd";

pub(super) fn trials() -> Vec<Trial> {
    let with_password = RedisOptions { password: Some(PASSWORD.to_owned()), ..RedisOptions::default() };
    let with_password = ServerKind::Redis(with_password);
    vec![
        trial("redis/access/the URL's password is used", with_password.clone(), password),
        trial("redis/access/a wrong password is refused and not shown", with_password, wrong_password),
        trial(
            "redis/access/a password that the server does not have",
            ServerKind::redis(),
            needless_password,
        ),
        trial("redis/access/a user who may only read", ServerKind::redis(), reader),
        trial("redis/access/the documented rules suffice", ServerKind::redis(), documented),
        trial("redis/access/a refusal in the middle of a call", ServerKind::redis(), lister),
        trial("redis/access/a user of another prefix", ServerKind::redis(), prefix),
        trial("redis/access/a database that the server does not have", ServerKind::redis(), database),
        trial("redis/access/a prefix keeps others' objects apart", ServerKind::redis(), apart),
    ]
}

/// The answers of all calls must be refusals that show no password.
fn assert_refused(url: &str) {
    let engine = client(url);
    for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
        assert!(matches!(answer, Err(RemoteError::Refused { .. })), "{call}: {answer:?}");
        let text = format!("{answer:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
    assert!(!engine.location().contains("hunter2"));
}

fn password(server: Server) -> Result<(), Failed> {
    for user in ["", "default"] {
        let engine = client(&format!("redis://{user}:{ENCODED}@{}/3", server.address()));
        assert_eq!(engine.replace(&[RemoteObject::new(&name("a"), b"1")], &limits()), Ok(()));
        assert_eq!(engine.location(), format!("redis://{}/3", server.address()));
    }
    Ok(())
}

fn wrong_password(server: Server) -> Result<(), Failed> {
    assert_refused(&format!("redis://{}", server.address()));
    assert_refused(&format!("redis://:hunter2@{}", server.address()));
    assert_refused(&format!("redis://nobody:hunter2@{}/1", server.address()));
    Ok(())
}

fn needless_password(server: Server) -> Result<(), Failed> {
    assert_refused(&format!("redis://:hunter2@{}", server.address()));
    Ok(())
}

fn reader(server: Server) -> Result<(), Failed> {
    let writer = client(&server.url());
    writer.replace(&[RemoteObject::new(&name("a"), b"1")], &limits()).unwrap();
    send(&server, "ACL SETUSER reader on >hunter2 ~opkeep/* +mget +get");
    let engine = client(&format!("redis://reader:hunter2@{}", server.address()));
    assert_eq!(get(&*engine, &[name("a"), name("b")]), Ok(vec![Some(b"1".to_vec()), None]));
    assert_eq!(engine.progress(&name("p"), &limits()), Ok(Some(0)));
    for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("b")], &limits()) {
        match call {
            "get_many" | "progress" => assert_eq!(answer, Ok(()), "{call}"),
            _ => assert!(matches!(answer, Err(RemoteError::Refused { .. })), "{call}: {answer:?}"),
        }
    }
    // A refusal ends no connection.
    assert_eq!(send(&server, "CLIENT LIST").matches("user=reader").count(), 1);
    Ok(())
}

/// The manual's rules, as they stand there. Without any one of their commands, something is refused.
fn documented(server: Server) -> Result<(), Failed> {
    const MANUAL: &str = include_str!("../../../../../docs/remote.md");
    let rule = |user: &str| {
        let text = MANUAL.split('`').find(|text| text.starts_with(&format!("ACL SETUSER {user} "))).unwrap();
        text.replace("PASSWORD", "hunter2")
    };
    let listing = MANUAL.split('`').find(|text| text.starts_with("+scan")).unwrap();
    let client_of = |user: &str, rule: &str| {
        send(&server, &format!("ACL DELUSER {user}"));
        send(&server, rule);
        client(&format!("redis://{user}:hunter2@{}", server.address()))
    };
    let refused = |rule: &str| refused_calls(&*client_of("writer", rule), &capabilities());
    let reader = client_of("reader", &rule("reader"));
    assert_eq!(get(&*reader, &[name("a")]), Ok(vec![None]));
    assert_eq!(reader.progress(&name("p"), &limits()), Ok(Some(0)));
    assert_eq!(refused(&rule("writer")), ["list"]);
    let all = format!("{} {listing}", rule("writer"));
    assert_eq!(refused(&all), [""; 0]);
    for command in all.split(' ').filter(|word| word.starts_with('+')) {
        let words: Vec<_> = all.split(' ').filter(|word| *word != command).collect();
        let rule = words.join(" ");
        let has_no_ages = || {
            let listing = client_of("writer", &rule).list("", "", &limits()).unwrap();
            !listing.objects.is_empty() && listing.objects.iter().all(|object| object.idle.is_none())
        };
        // A listing without ages is one, from which `gc` deletes nothing.
        assert!(!refused(&rule).is_empty() || has_no_ages(), "{command} is not needed");
    }
    let url = format!("redis://writer:hunter2@{}", server.address());
    client_of("writer", &all);
    let report = opkeep_remote::check::check(&url, &Default::default(), &Default::default())?;
    assert!(
        report.is_usable() && report.access == Access::ReadWrite && report.left.objects == 0,
        "{report:?}"
    );
    Ok(())
}

/// The user may ask which keys there are, but not how large they are. All of these refusals are taken from the connection.
fn lister(server: Server) -> Result<(), Failed> {
    let (names, writer) = (["a", "b", "c"].map(name), client(&server.url()));
    let objects = names.each_ref().map(|name| RemoteObject::new(name, name.as_str().as_bytes()));
    writer.replace(&objects, &limits()).unwrap();
    send(&server, "ACL SETUSER lister on >hunter2 ~opkeep/* +mget +scan +object");
    let engine = client(&format!("redis://lister:hunter2@{}", server.address()));
    for _ in 0..3 {
        assert!(matches!(engine.list("", "", &limits()), Err(RemoteError::Refused { .. })));
        assert_eq!(get(&*engine, &names[2..]), Ok(vec![Some(b"c".to_vec())]));
    }
    assert_eq!(send(&server, "CLIENT LIST").matches("user=lister").count(), 1);
    Ok(())
}

fn prefix(server: Server) -> Result<(), Failed> {
    send(&server, "ACL SETUSER team on >hunter2 ~team/* +@all");
    let engine = client(&format!("redis://team:hunter2@{}?prefix=team", server.address()));
    for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
        assert_eq!(answer, Ok(()), "{call}");
    }
    let claimed = engine.claim(&[name("l")], &lease(1, 0), ClaimTerms::new(1, super::time::HOUR), &limits());
    assert!(claimed.is_ok(), "{claimed:?}");
    let engine = client(&format!("redis://team:hunter2@{}?prefix=others", server.address()));
    for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &[name("a")], &limits()) {
        match call {
            // The names of others are no secret.
            "list" => assert_eq!(answer, Ok(())),
            _ => assert!(matches!(answer, Err(RemoteError::Refused { .. })), "{call}: {answer:?}"),
        }
    }
    Ok(())
}

fn database(server: Server) -> Result<(), Failed> {
    assert_refused(&format!("redis://{}/99", server.address()));
    Ok(())
}

fn apart(server: Server) -> Result<(), Failed> {
    let objects = |url: &str| client(&format!("redis://{}{url}", server.address()));
    let urls = ["", "?prefix=a", "?prefix=a/b", "/1", "/1?prefix=a"];
    let a = name("x");
    for url in urls {
        objects(url).replace(&[RemoteObject::new(&a, url.as_bytes())], &limits()).unwrap();
    }
    for url in urls {
        assert_eq!(get(&*objects(url), std::slice::from_ref(&a)), Ok(vec![Some(url.as_bytes().to_vec())]));
    }
    // Keys of other programs, and of prefixes that begin with ours, are in no listing.
    send(&server, "SET opkeep 1\nSET opkeep/ 1\nSET opkeep2/x 1\nSET opkeep/a*b 1\nLPUSH opkeep/list 1");
    let listing = objects("").list("", "", &limits()).unwrap();
    let mut names: Vec<_> = listing.objects.iter().map(|object| object.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!((names, listing.next), (vec!["list", "x"], None));
    Ok(())
}
