//! The environment of the process, which is read when a cache is opened, and only if its options ask for it.
#![expect(clippy::disallowed_methods, reason = "the options name the variables that are read")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;

use opkeep_remote::Variables;

/// Returns the variables whose settings begin with `prefix`, as they are now: the program may change its environment later, while
/// threads of the library run.
pub(crate) fn variables(prefix: &str) -> Variables {
    let is_used = |name: &str| {
        name.starts_with(prefix) || name.starts_with("AWS_") || ["HOME", "XDG_STATE_HOME"].contains(&name)
    };
    let values: HashMap<String, OsString> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| is_used(name))
        .collect();
    Variables::new(prefix, Arc::new(move |name: &str| values.get(name).cloned()))
}
