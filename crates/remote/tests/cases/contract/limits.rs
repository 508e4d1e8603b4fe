//! Calls that are over before they begin.

use std::time::{Duration, Instant};

use opkeep_cache::{
    CancelToken, Capabilities, ClaimTerms, ExclusiveCreate, ObjectName, RemoteContext, RemoteEngine,
    RemoteError, RemoteObject,
};

use super::Needs::Objects;
use super::{Case, Cases, lease, token};

pub(super) const CASES: Cases = &[
    ("a call whose deadline has passed does nothing", Objects, passed),
    ("a call that is cancelled does nothing", Objects, cancelled),
];

/// Makes each call that an engine of these capabilities has, and returns the calls' names and answers. No object may be found.
pub(crate) fn answers_of_all_calls(
    engine: &dyn RemoteEngine,
    capabilities: &Capabilities,
    names: &[ObjectName],
    context: &RemoteContext<'_>,
) -> Vec<(&'static str, Result<(), RemoteError>)> {
    let objects = [RemoteObject::new(&names[0], b"content")];
    let hour = Duration::from_secs(3600);
    let mut found = |index: usize, _: Vec<u8>| panic!("{} was found", names[index]);
    let mut answers = vec![
        ("get_many", engine.get_many(names, context, &mut found)),
        ("put_if_absent", engine.put_if_absent(&objects, context).map(drop)),
        ("replace", engine.replace(&objects, context)),
        ("remove", engine.remove(names, context)),
    ];
    if capabilities.exclusive_create != ExclusiveCreate::None {
        let terms = ClaimTerms::new(1, hour);
        answers.push(("claim", engine.claim(names, &lease(1, 0), terms, context).map(drop)));
        answers.push(("renew", engine.renew(names, &lease(1, 1), hour, context).map(drop)));
        answers.push(("release", engine.release(names, &token(1), context)));
    }
    if capabilities.has_counters {
        answers.push(("progress", engine.progress(&names[0], context).map(drop)));
        answers.push(("advance", engine.advance(&names[0], 1, hour, context)));
    }
    if capabilities.has_listing {
        answers.push(("list", engine.list("", "", context).map(drop)));
    }
    answers.retain(|(_, answer)| !matches!(answer, Err(RemoteError::Unsupported { .. })));
    answers
}

/// On a client that is not connected, and on one that is.
fn all_fail(case: &Case, context: &RemoteContext<'_>, expected: &RemoteError) {
    let names = case.names(&["x", "y"]);
    assert_eq!(case.get(&names), [None, None]);
    for engine in [case.another(), case.engine.clone()] {
        let began = Instant::now();
        for (call, answer) in answers_of_all_calls(&*engine, &case.subject.capabilities, &names, context) {
            assert_eq!(answer.as_ref(), Err(expected), "{call}");
        }
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(case.get(&names), [None, None]);
}

fn passed(case: &Case) {
    all_fail(case, &RemoteContext::new(Instant::now(), None), &RemoteError::TimedOut);
}

fn cancelled(case: &Case) {
    let cancel = CancelToken::new();
    cancel.cancel();
    let context = RemoteContext::new(Instant::now() + Duration::from_secs(120), Some(&cancel));
    all_fail(case, &context, &RemoteError::Cancelled);
}
