//! Servers that end and networks that fail, at each byte.

use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{
    ClaimAnswer, ClaimTerms, ObjectName, PutAnswer, RemoteContext, RemoteEngine, RemoteError, RemoteObject,
};
use opkeep_testkit::is_turn;
use opkeep_testkit::proxy::{Fault, FaultKind, Proxy, ProxySettings};
use opkeep_testkit::servers::{RedisOptions, Server, ServerKind, trial};

use super::time::HOUR;
use super::{client, name};
use crate::contract::{get, lease, limits, token};

pub(super) fn trials() -> Vec<Trial> {
    let redis = ServerKind::redis;
    let persistent = RedisOptions { is_persistent: true, ..RedisOptions::default() };
    vec![
        trial(
            "redis/faults/a restarted server is used again at once",
            ServerKind::Redis(persistent),
            restarted,
        ),
        trial("redis/faults/a new connection cut at each byte", redis(), |server| cut(&server, false)),
        trial("redis/faults/an idle connection cut at each byte", redis(), |server| cut(&server, true)),
        trial("redis/faults/bytes that change, repeat, move or vanish", redis(), damaged),
    ]
}

fn restarted(mut server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let (names, terms) = ([name("a")], ClaimTerms::new(1, HOUR));
    engine.replace(&[RemoteObject::new(&names[0], b"1")], &limits()).unwrap();
    for round in 0..3 {
        server.restart()?;
        // The idle connection is closed; nothing of that is seen.
        let claimed = engine.claim(&[name(&format!("l/{round}"))], &lease(1, 0), terms, &limits());
        assert_eq!(claimed, Ok(vec![ClaimAnswer::Granted]));
        assert_eq!(get(&*engine, &names), Ok(vec![Some(b"1".to_vec())]));
        server.kill()?;
        for _ in 0..2 {
            let answer = get(&*engine, &names);
            assert!(matches!(answer, Err(RemoteError::Unreachable { .. })), "{answer:?}");
        }
    }
    server.restart()?;
    assert_eq!(get(&*engine, &names), Ok(vec![Some(b"1".to_vec())]));
    Ok(())
}

/// What the dialogues of one round are about.
struct Round {
    /// Two objects that the server has.
    there: [ObjectName; 2],
    /// Two names to store or to claim.
    new: [ObjectName; 2],
}

/// One call, whose answer is checked if it comes, and what the server must have afterwards, by another client: `Ok` says that the
/// call succeeded.
struct Dialogue {
    name: &'static str,
    call: fn(&dyn RemoteEngine, &Round) -> Result<(), RemoteError>,
    check: fn(&dyn RemoteEngine, &Round, bool),
}

const CONTENT: &[u8] = b"content\r\n";

fn dialogues() -> [Dialogue; 7] {
    [
        Dialogue {
            name: "get",
            call: |engine, round| {
                let [a, b] = round.there.clone();
                let names = [a, round.new[0].clone(), b];
                let found = get(engine, &names)?;
                assert_eq!(found, [Some(CONTENT.to_vec()), None, Some(CONTENT.to_vec())]);
                Ok(())
            },
            check: |_, _, _| {},
        },
        Dialogue {
            name: "put",
            call: |engine, round| {
                let objects = round.new.each_ref().map(|name| RemoteObject::new(name, CONTENT));
                let answers = engine.put_if_absent(&objects, &limits())?;
                // A request that is sent again finds what it stored before.
                let is_answer = |answer: &PutAnswer| matches!(answer, PutAnswer::Stored | PutAnswer::Existed);
                assert!(answers.len() == 2 && answers.iter().all(is_answer));
                Ok(())
            },
            check: |engine, round, succeeded| {
                for found in get(engine, &round.new).unwrap() {
                    assert!(
                        found.as_deref() == Some(CONTENT) || (found.is_none() && !succeeded),
                        "{found:?}"
                    );
                }
            },
        },
        Dialogue {
            name: "replace",
            call: |engine, round| {
                let objects = round.there.each_ref().map(|name| RemoteObject::new(name, b"other"));
                engine.replace(&objects, &limits())
            },
            check: |engine, round, succeeded| {
                for found in get(engine, &round.there).unwrap() {
                    let is_old = found.as_deref() == Some(CONTENT);
                    assert!(found.as_deref() == Some(b"other") || (is_old && !succeeded), "{found:?}");
                }
            },
        },
        Dialogue {
            name: "claim",
            call: |engine, round| {
                let answers = engine.claim(&round.new, &lease(1, 0), ClaimTerms::new(9, HOUR), &limits())?;
                // Also if the first request was executed and its answer was lost.
                assert_eq!(answers, [ClaimAnswer::Granted; 2]);
                Ok(())
            },
            check: |engine, round, succeeded| {
                let own = lease(1, 0).to_string().into_bytes();
                let found = get(engine, &round.new).unwrap();
                assert!(found == [Some(own.clone()), Some(own)] || (found == [None, None] && !succeeded));
            },
        },
        Dialogue {
            name: "renew and release",
            call: |engine, round| {
                let claimed = engine.claim(&round.new, &lease(1, 0), ClaimTerms::new(9, HOUR), &limits())?;
                assert_eq!(claimed, [ClaimAnswer::Granted; 2]);
                assert_eq!(engine.renew(&round.new, &lease(1, 1), HOUR, &limits())?, [true; 2]);
                engine.release(&round.new, &token(1), &limits())
            },
            check: |engine, round, succeeded| {
                let found = get(engine, &round.new).unwrap();
                assert_eq!(found[0], found[1]);
                assert!(found[0].is_none() || !succeeded);
            },
        },
        Dialogue {
            name: "counter",
            call: |engine, round| {
                let before = engine.progress(&round.new[0], &limits())?;
                engine.advance(&round.new[0], 3, HOUR, &limits())?;
                let after = engine.progress(&round.new[0], &limits())?;
                // A lost answer may count twice.
                assert!(before == Some(0) && matches!(after, Some(3 | 6)), "{before:?} {after:?}");
                Ok(())
            },
            check: |_, _, _| {},
        },
        Dialogue {
            name: "list and remove",
            call: |engine, round| {
                let (folder, _) = round.there[0].as_str().split_once('/').unwrap();
                let listing = engine.list(&format!("{folder}/"), "", &limits())?;
                let mut names: Vec<_> = listing.objects.into_iter().map(|object| object.name).collect();
                names.sort_unstable();
                assert_eq!(names, round.there);
                engine.remove(&round.there, &limits())
            },
            check: |engine, round, succeeded| {
                let found = get(engine, &round.there).unwrap();
                assert!(found[0] == found[1] && (found[0].is_none() || !succeeded), "{found:?}");
            },
        },
    ]
}

/// An ordinary run cuts at every fourth byte.
const PARTS: usize = 4;

/// Cuts the connection once at each byte of each dialogue. Whatever happened, the next call over the same client gets the answer to
/// its own request.
fn cut(server: &Server, is_idle: bool) -> Result<(), Failed> {
    let direct = client(&server.url());
    let mut again = 0;
    let proxy = Proxy::start(server.address())?;
    for kind in [FaultKind::Close, FaultKind::Reset] {
        for (number, dialogue) in dialogues().into_iter().enumerate() {
            for at in (0..).filter(|at| is_turn(at + number, PARTS)) {
                let at = at as u64;
                let engine = client(&server.url_at(proxy.address()));
                let round = Round {
                    there: [name(&format!("{at}/a")), name(&format!("{at}/b"))],
                    new: [name(&format!("{at}/new/a")), name(&format!("{at}/new/b"))],
                };
                direct.remove(&round.new, &limits()).unwrap();
                let objects = round.there.each_ref().map(|name| RemoteObject::new(name, CONTENT));
                direct.replace(&objects, &limits()).unwrap();
                if is_idle {
                    assert_eq!(get(&*engine, &[name("none")]), Ok(vec![None]));
                }
                proxy.set(ProxySettings::with_fault(Fault::after(at, kind)))?;
                let answer = (dialogue.call)(&*engine, &round);
                let has_happened = proxy.happened() > 0;
                proxy.set(ProxySettings::default())?;
                let place = format!("{} at byte {at}, {kind:?}", dialogue.name);
                match &answer {
                    Ok(()) => again += u32::from(has_happened),
                    Err(RemoteError::Unreachable { .. }) => assert!(has_happened, "{place}"),
                    Err(other) => panic!("{place}: {other:?}"),
                }
                (dialogue.check)(&*direct, &round, answer.is_ok());
                direct.replace(&objects, &limits()).unwrap();
                let found = get(&*engine, &[round.there[0].clone(), name("none")]);
                assert_eq!(found, Ok(vec![Some(CONTENT.to_vec()), None]), "{place}");
                direct.remove(&[&round.there[..], &round.new[..]].concat(), &limits()).unwrap();
                if !has_happened {
                    break;
                }
            }
        }
    }
    // Calls that were cut and succeeded were made again, over a new connection: only a connection that was used before is given
    // this second chance. (The last byte of a dialogue is followed by a cut that no client sees.)
    assert!(if is_idle { again > 50 } else { again > 0 }, "{again}");
    Ok(())
}

/// No checksum protects the bytes, so an answer may be wrong; but there is one, in time, and nothing was reported that was not
/// requested. The connection is not used further.
fn damaged(server: Server) -> Result<(), Failed> {
    let direct = client(&server.url());
    let names = [name("a"), name("none"), name("b")];
    let objects = [RemoteObject::new(&names[0], b"12345"), RemoteObject::new(&names[2], b"67890")];
    direct.replace(&objects, &limits()).unwrap();
    let kinds = [
        FaultKind::Corrupt(1),
        FaultKind::Corrupt(0x80),
        FaultKind::Repeat(3),
        FaultKind::Swap(2),
        FaultKind::Omit(2),
    ];
    let proxy = Proxy::start(server.address())?;
    for kind in kinds {
        for at in 0.. {
            let engine = client(&server.url_at(proxy.address()));
            proxy.set(ProxySettings::with_fault(Fault::after(at, kind)))?;
            let context = RemoteContext::new(Instant::now() + Duration::from_millis(60), None);
            let mut found = [false; 3];
            let _ = engine.get_many(&names, &context, &mut |index, _| {
                assert!(!std::mem::replace(&mut found[index], true), "{index} was reported twice");
            });
            let has_happened = proxy.happened() > 0;
            proxy.set(ProxySettings::default())?;
            // Bytes that the server got too much may have answers that come later.
            let expected = vec![Some(b"12345".to_vec()), None, Some(b"67890".to_vec())];
            let again = get(&*engine, &names).or_else(|_| get(&*engine, &names));
            assert_eq!(again, Ok(expected), "{kind:?} at {at}");
            if !has_happened {
                break;
            }
        }
    }
    Ok(())
}
