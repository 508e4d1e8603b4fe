//! The requests of a build by target: descriptors name chips, if the user chooses no target.

use std::collections::HashMap;

use opkeep::{Engine, Request};
use opkeep_cann_meta::targets;
use opkeep_fs::CancelToken;

use super::{backend, engine_of};
use crate::flags::compile::CompileArgs;
use crate::input::options::UnknownOptions;

/// The requests for one target, with their engine.
pub(crate) struct TargetRequests {
    pub(crate) target: String,
    pub(crate) engine: Engine,
    pub(crate) requests: Vec<Request>,
}

/// Splits the requests by target: if the user chose no target, a request goes to the backend for the chip that its
/// descriptor names, if the chip's toolchain is installed. All other requests stay with `engine`, and come first.
///
/// # Errors
/// The user named a toolkit that cannot be used; an option is unknown to every backend of the requests and to every
/// descriptor; or the value of an option is wrong for a backend that knows it.
pub(crate) fn split_by_target(
    requests: Vec<Request>,
    engine: Engine,
    common: &CompileArgs,
    mut unknown: UnknownOptions<'_>,
    cancel: &CancelToken,
) -> anyhow::Result<Vec<TargetRequests>> {
    let target = common.target().to_owned();
    let mut by_target = vec![TargetRequests { target, engine, requests: Vec::new() }];
    let mut known: HashMap<String, usize> = HashMap::new();
    for mut request in requests {
        let named = &request.descriptor.spec.target;
        let at = match known.get(named) {
            Some(at) => *at,
            None => {
                let opened = engine_for_chip(named, common, cancel)?;
                let at = if opened.is_some() { by_target.len() } else { 0 };
                let target = named.clone();
                by_target.extend(opened.map(|engine| TargetRequests {
                    target,
                    engine,
                    requests: Vec::new(),
                }));
                known.insert(named.clone(), at);
                at
            }
        };
        if at > 0 {
            request.spec = request.spec.retarget(named);
        }
        by_target[at].requests.push(request);
    }
    let builds_nothing = by_target.iter().all(|one| one.requests.is_empty());
    for one in by_target.iter().filter(|one| builds_nothing || !one.requests.is_empty()) {
        unknown.remove_known_to(one.engine.backend(), &one.target)?;
    }
    unknown.check()?;
    by_target.retain(|one| !one.requests.is_empty());
    Ok(by_target)
}

/// Returns an engine for the chip called `named`; none, if that is no chip, or its toolchain is not installed.
fn engine_for_chip(
    named: &str,
    common: &CompileArgs,
    cancel: &CancelToken,
) -> anyhow::Result<Option<Engine>> {
    let is_chip = targets::named(named).is_some_and(|it| targets::is_ai_core(&it));
    if common.chooses_target() || !is_chip {
        return Ok(None);
    }
    match backend(common, named) {
        Ok(backend) => Ok(Some(engine_of(backend, common, cancel))),
        Err(error) if common.cann().is_some() => Err(error),
        Err(_) => Ok(None),
    }
}
