//! Connections that are cut in the middle of a dialogue.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimAnswer, ClaimTerms, RemoteError, RemoteObject};
use opkeep_testkit::proxy::{Fault, FaultKind, Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::{client, name};
use crate::contract::{get, lease, limits};
use crate::shared::{CONTENT, Call, GET, PUT};

/// The bytes between two cuts: a request to this server takes milliseconds, and a dialogue has more than a thousand bytes. It has no
/// divisor in common with the lengths of what a dialogue is made of.
const STEP: u64 = 13;
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("s3/faults/a new connection that is cut", ServerKind::Moto, |server| cut(&server, false)),
        // Moto closes each connection after its answer.
        trial("s3/faults/an idle connection that is cut", ServerKind::S3sFs, |server| cut(&server, true)),
        trial("s3/faults/a restarted server is used again at once", ServerKind::S3sFs, restarted),
    ]
}

/// A name that is stored, and a new one, in each call.
const CALLS: [(&str, Call); 3] = [
    GET,
    PUT,
    ("claim", |engine, names| {
        let answers = engine.claim(&names[1..], &lease(1, 0), ClaimTerms::new(1, HOUR), &limits())?;
        // Also if the first request was executed and its answer was lost.
        assert_eq!(answers, [ClaimAnswer::Granted]);
        Ok(())
    }),
];

fn cut(server: &Server, is_idle: bool) -> Result<(), Failed> {
    let direct = client(&server.url());
    let (mut again, mut failed) = (0, 0);
    for (call_name, call) in CALLS {
        for at in (0..).step_by(STEP as usize) {
            let names = [name(&format!("{call_name}/{at}")), name(&format!("{call_name}/{at}-new"))];
            direct.replace(&[RemoteObject::new(&names[0], CONTENT)], &limits()).unwrap();
            let proxy = Proxy::start(server.address())?;
            let engine = client(&server.url_at(proxy.address()));
            if is_idle {
                assert_eq!(get(&*engine, &[name("none")]), Ok(vec![None]));
            }
            proxy.set(ProxySettings::with_fault(Fault::after(at, FaultKind::Reset)))?;
            let answer = call(&*engine, &names);
            let has_happened = proxy.happened() > 0;
            proxy.set(ProxySettings::default())?;
            match &answer {
                Ok(()) => again += u32::from(has_happened),
                Err(RemoteError::Unreachable { .. }) => {
                    failed += 1;
                    assert!(has_happened, "{call_name} at byte {at}");
                }
                Err(other) => panic!("{call_name} at byte {at}: {other:?}"),
            }
            // The next call gets the answer to its own request.
            assert_eq!(get(&*engine, &names[..1]), Ok(vec![Some(CONTENT.to_vec())]), "{call_name} at {at}");
            let found = get(&*direct, &names[1..]).unwrap().remove(0);
            let is_whole =
                found.is_none_or(|found| found == CONTENT || found == lease(1, 0).to_string().as_bytes());
            assert!(is_whole, "{call_name} at byte {at}");
            if !has_happened {
                break;
            }
        }
    }
    assert!(failed > 20 && (!is_idle || again > 10), "{failed} failed, {again} were made again");
    Ok(())
}

fn restarted(mut server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let names = [name("a")];
    engine.replace(&[RemoteObject::new(&names[0], b"1")], &limits()).unwrap();
    for round in 0..3 {
        server.restart()?;
        // The idle connections are closed; nothing of that is seen.
        let names_of_leases = [name(&format!("l/{round}"))];
        let claimed = engine.claim(&names_of_leases, &lease(1, 0), ClaimTerms::new(1, HOUR), &limits());
        assert_eq!(claimed, Ok(vec![ClaimAnswer::Granted]));
        assert_eq!(get(&*engine, &names), Ok(vec![Some(b"1".to_vec())]));
        server.kill()?;
        let answer = get(&*engine, &names);
        assert!(matches!(answer, Err(RemoteError::Unreachable { .. })), "{answer:?}");
    }
    Ok(())
}
