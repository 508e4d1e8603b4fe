//! The options that the user gives. A misspelt name or a wrong value is an error.

use std::collections::BTreeSet;

use anyhow::bail;
use opkeep_backend::{Backend, BackendError};
use opkeep_descriptor::BuildSpec;

use crate::flags::compile::CompileArgs;
use crate::ui::nearest::nearest_name;
use crate::ui::output::Output;

/// The names given with `--option` that no target and no descriptor has so far.
pub(crate) struct UnknownOptions<'a> {
    given: &'a [(String, String)],
    names: Vec<&'a str>,
    known: BTreeSet<&'static str>,
    /// Those of the known ones that change kernels of a target.
    effective: BTreeSet<&'static str>,
    targets: Vec<String>,
}

impl<'a> UnknownOptions<'a> {
    /// Begins with all given options.
    pub(crate) fn of(common: &'a CompileArgs) -> Self {
        let names = common.options.iter().map(|(name, _)| name.as_str()).collect();
        Self {
            given: &common.options,
            names,
            known: BTreeSet::new(),
            effective: BTreeSet::new(),
            targets: Vec::new(),
        }
    }

    /// Removes the names that `backend`, which builds for `target`, knows.
    ///
    /// # Errors
    /// The backend refuses the value of an option.
    pub(crate) fn remove_known_to(
        &mut self,
        backend: &dyn Backend,
        target: &str,
    ) -> Result<(), BackendError> {
        let known = backend.option_names();
        for (name, value) in self.given.iter().filter(|(name, _)| known.contains(&name.as_str())) {
            backend.check_option(name, value)?;
        }
        self.names.retain(|name| !known.contains(name));
        let ignored = backend.ignored_options();
        self.effective.extend(known.iter().copied().filter(|name| !ignored.contains(name)));
        self.known.extend(known);
        self.targets.push(format!("`{target}`"));
        Ok(())
    }

    /// Removes the names of the options that a descriptor has, since a framework set them.
    pub(crate) fn remove_found_in(&mut self, spec: &BuildSpec) {
        self.names.retain(|name| !spec.options.contains_key(*name));
    }

    /// # Errors
    /// Unknown names are left.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.names.is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = self.known.iter().copied().collect();
        let one = |name: &&str| match nearest_name(name, &known) {
            Some(nearest) => format!("`{name}` (did you mean `{nearest}`?)"),
            None => format!("`{name}`"),
        };
        let (targets, have) = match &self.targets[..] {
            [target] => (format!("target {target}"), "has"),
            targets => (format!("targets {}", targets.join(" and ")), "have"),
        };
        let list = |is_effective: bool| {
            let names = known.iter().copied().filter(|name| self.effective.contains(name) == is_effective);
            names.collect::<Vec<_>>().join(", ")
        };
        let ignored = match list(false) {
            names if names.is_empty() => String::new(),
            names => format!("; the known ones without effect there are {names}"),
        };
        bail!(
            "the {targets} {have} no option {}, and no descriptor has one; known are {}{ignored}",
            self.names.iter().map(one).collect::<Vec<_>>().join(", "),
            list(true)
        )
    }
}

/// Prints a note about the given options that change no kernel for `target`.
pub(crate) fn note_ignored(common: &CompileArgs, backend: &dyn Backend, target: &str, output: &Output) {
    let ignored = backend.ignored_options();
    let given: BTreeSet<&str> = opkeep_order::set(common.options.iter().map(|(name, _)| name.as_str()));
    let given: Vec<String> =
        given.iter().filter(|name| ignored.contains(name)).map(|name| format!("`{name}`")).collect();
    let (option, has) = match given.len() {
        0 => return,
        1 => ("option", "has"),
        _ => ("options", "have"),
    };
    output.print_note(&format!("the {option} {} {has} no effect on the target `{target}`", given.join(", ")));
}

#[cfg(test)]
mod tests;
