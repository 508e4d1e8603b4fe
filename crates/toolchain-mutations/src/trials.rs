//! A trial for each case, and one that counts them.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use opkeep_testkit::mutation_seeds;
use tempfile::TempDir;

use super::case::{Case, Expect};
use super::judge::{Prepared, Verdict};
use super::needs::Machine;
use super::parts::Parts;
use super::place::Place;
use super::variant::{HARMLESS_SHARE, SHARE, Variant};
use super::{CASES, build, disk};

/// The least numbers of cases that must have shown their effect.
const MIN_MATTER: usize = 25;
const MIN_COMPILED_TWICE: usize = 15;
const MIN_CANNOT_MATTER: usize = 8;

/// The directory of the trials' toolchains, which lasts as long as they run, and the results of the trials.
pub struct Laboratory {
    _dir: TempDir,
    tally: Arc<Tally>,
}

impl Laboratory {
    /// Prints the results of the trials.
    pub fn show(&self) {
        self.tally.show();
    }
}

/// A trial for each case that `args` select, with the `opkeep` at `program`.
///
/// # Errors
/// The toolchains cannot be prepared.
pub fn trials(program: &Path, args: &Arguments) -> io::Result<(Vec<Trial>, Laboratory)> {
    let dir = tempfile::tempdir()?;
    let network = dir.path().join("network");
    build::write_network(&network)?;
    let parts = Arc::new(Parts::new(&dir.path().join("parts")));
    disk::directory(&dir.path().join("parts"))?;
    let machine = Machine::new(dir.path(), &parts);
    let tally = Arc::new(Tally::default());
    let mut trials = Vec::new();
    for (number, (case, variant)) in plays().enumerate() {
        let name = trial_name(case, variant);
        if let Some(missing) = machine.lacks(case.needs) {
            trials.push(Trial::test(name, || Ok(())).with_kind(missing).with_ignored_flag(true));
            continue;
        }
        if args.list || !is_asked_for(args, &name) {
            trials.push(Trial::test(name, || Err("not prepared".into())));
            continue;
        }
        let place = Place::new(&dir.path().join(number.to_string()), Arc::clone(&parts))?;
        let prepared = Prepared::new(case, variant, place);
        let (program, network) = (program.to_owned(), network.clone());
        let turn = tally.expect_one(case);
        trials.push(Trial::test(name, move || {
            let prepared = prepared.map_err(|error| format!("the toolchain was not laid: {error}"))?;
            let verdict = prepared.judge(&program, &network);
            turn.end(&verdict);
            match verdict.faults.as_slice() {
                [] => Ok(()),
                faults => {
                    let text: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
                    Err(format!("{}{text}", case.about).into())
                }
            }
        }));
    }
    let all = args.filter.is_none() && args.skip.is_empty() && !args.ignored;
    let counts = Arc::clone(&tally);
    trials.push(
        Trial::test("there_are_enough_cases_and_they_compile", move || counts.judge())
            .with_ignored_flag(!all),
    );
    Ok((trials, Laboratory { _dir: dir, tally }))
}

/// Each case in the ways that the seeds select.
fn plays() -> impl Iterator<Item = (&'static Case, Variant)> {
    mutation_seeds().into_iter().flat_map(|seed| {
        let all = CASES.iter().copied().flatten();
        all.filter_map(move |case| {
            let share = if case.expect == Expect::CannotMatter { HARMLESS_SHARE } else { SHARE };
            Some((case, Variant::new(case.name, seed, case.reversible, share)?))
        })
    })
}

fn trial_name(case: &Case, variant: Variant) -> String {
    let kind = match case.expect {
        Expect::Matters => "matters",
        Expect::MayMatter => "may_matter",
        Expect::CannotMatter => "cannot_matter",
    };
    format!("{kind}/{}/{}", case.name, variant.name())
}

/// Whether a trial will run: only those create their toolchain.
fn is_asked_for(args: &Arguments, name: &str) -> bool {
    let is = |text: &String| if args.exact { name == text } else { name.contains(text.as_str()) };
    args.filter.as_ref().is_none_or(is) && !args.skip.iter().any(is) && !args.ignored
}

/// The results of the trials.
#[derive(Default)]
struct Tally {
    counts: Mutex<Counts>,
    ended: Condvar,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    waiting: usize,
    /// Each case once, however often it was played.
    matter: HashSet<&'static str>,
    compiled_twice: HashSet<&'static str>,
    may_matter: HashSet<&'static str>,
    cannot_matter: HashSet<&'static str>,
    refused: Vec<(&'static str, String)>,
    faulty: usize,
}

impl Tally {
    fn expect_one(self: &Arc<Self>, case: &'static Case) -> Turn {
        self.locked().waiting += 1;
        Turn { tally: Arc::clone(self), case }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all others, which started earlier.
    fn judge(&self) -> Result<(), Failed> {
        let counts = self.locked();
        let counts = self
            .ended
            .wait_while(counts, |counts| counts.waiting > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let bounds = [
            ("changes that matter", counts.matter.len(), MIN_MATTER),
            (
                "changes that matter, compiled before and after",
                counts.compiled_twice.len(),
                MIN_COMPILED_TWICE,
            ),
            ("changes that cannot matter", counts.cannot_matter.len(), MIN_CANNOT_MATTER),
        ];
        let too_few = bounds.iter().filter(|(_, count, least)| count < least);
        let text: String = too_few
            .map(|(what, count, least)| format!("{count} {what}, at least {least} must be\n"))
            .collect();
        if text.is_empty() { Ok(()) } else { Err(text.into()) }
    }

    #[expect(clippy::print_stdout, reason = "a test program reports to people")]
    fn show(&self) {
        let Counts { matter, compiled_twice, may_matter, cannot_matter, refused, faulty, .. } =
            self.locked().clone();
        println!(
            "{} changes that matter ({} compiled before and after), {} that may, {} that cannot; {} refused; \
             {faulty} went wrong",
            matter.len(),
            compiled_twice.len(),
            may_matter.len(),
            cannot_matter.len(),
            refused.len()
        );
        for (name, reason) in refused {
            println!("  refused {name}: {}", reason.lines().next().unwrap_or_default());
        }
    }
}

/// A pending trial. One that does not run, or panics, is not waited for.
struct Turn {
    tally: Arc<Tally>,
    case: &'static Case,
}

impl Turn {
    fn end(self, verdict: &Verdict) {
        let mut counts = self.tally.locked();
        if let Some(reason) = &verdict.refused {
            counts.refused.push((self.case.name, reason.clone()));
        }
        if !verdict.faults.is_empty() {
            counts.faulty += 1;
        }
        let seen = match self.case.expect {
            Expect::Matters => &mut counts.matter,
            Expect::MayMatter => &mut counts.may_matter,
            Expect::CannotMatter => &mut counts.cannot_matter,
        };
        seen.insert(self.case.name);
        if self.case.expect == Expect::Matters && verdict.compiled_twice {
            counts.compiled_twice.insert(self.case.name);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.tally.locked().waiting -= 1;
        self.tally.ended.notify_all();
    }
}
