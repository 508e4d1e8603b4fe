//! Plays and judges a case: build, build again, change, build, build with a fresh store, change back, build.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::build::{Built, World};
use super::case::{Call, Case, Expect};
use super::objects::content_of;
use super::place::Place;
use super::variant::Variant;

/// From this age on, programs may trust a file's times.
const SETTLED: Duration = Duration::from_millis(2100);

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub(super) faults: Vec<Fault>,
    /// The toolchain was refused, which the case allows.
    pub(super) refused: Option<String>,
    /// Both toolchains compiled.
    pub(super) compiled_twice: bool,
}

/// A failure of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A kernel differs from the toolchain's own.
    Stale(String),
    /// A kernel was built again although the store has it.
    Needless(String),
    /// A toolchain that works was refused.
    Refused(String),
    /// The change has no effect although it must have one, or has one although it must not.
    Vacuous(String),
    /// A build failed completely.
    Broken(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text) = match self {
            Self::Stale(text) => ("stale", text),
            Self::Needless(text) => ("needless", text),
            Self::Refused(text) => ("refused", text),
            Self::Vacuous(text) => ("vacuous", text),
            Self::Broken(text) => ("broken", text),
        };
        write!(f, "{kind}: {text}")
    }
}

/// A case whose toolchain is created, so that its files age while others run.
pub(super) struct Prepared {
    case: &'static Case,
    variant: Variant,
    place: Place,
    /// The driver's call before and after the change.
    before: Call,
    after: Call,
    since: Instant,
}

impl Prepared {
    pub(super) fn new(case: &'static Case, variant: Variant, place: Place) -> io::Result<Self> {
        let before = (case.setup)(&place)?;
        let mut after = before.clone();
        if variant.reversed {
            (case.change)(&place, &mut after)?;
        }
        Ok(Self { case, variant, place, before, after, since: Instant::now() })
    }

    pub(super) fn judge(mut self, program: &Path, network: &Path) -> Verdict {
        let mut verdict = Verdict::default();
        if let Err(error) = self.run(program, network, &mut verdict) {
            verdict.faults.push(Fault::Broken(error.to_string()));
        }
        verdict
    }

    fn run(&mut self, program: &Path, network: &Path, verdict: &mut Verdict) -> io::Result<()> {
        let used = World::new(program, network, self.place.world("s"));
        let fresh = World::new(program, network, self.place.world("f"));
        self.wait_or_renew()?;
        let old = self.build(&used, !self.variant.reversed)?;
        if !old.refused.is_empty() {
            match self.case.may_refuse {
                true => verdict.refused = Some(old.refused.join("; ")),
                false => verdict.faults.push(Fault::Refused(old.refused.join("; "))),
            }
        } else if self.case.reusable {
            let again = self.build(&used, !self.variant.reversed)?;
            verdict.faults.extend(unlike(&again, &old, "with nothing changed"));
        }
        self.turn(self.variant.reversed)?;
        let new = self.build(&used, self.variant.reversed)?;
        let expected = self.build(&fresh, self.variant.reversed)?;
        self.compare(&old, &new, &expected, verdict);
        if self.case.reversible && self.case.reusable {
            self.turn(!self.variant.reversed)?;
            let back = self.build(&used, !self.variant.reversed)?;
            verdict.faults.extend(unlike(&back, &old, "after the change was taken back"));
        }
        verdict.compiled_twice = old.refused.is_empty() && expected.refused.is_empty();
        Ok(())
    }

    /// Waits until the toolchain's files are old, or creates it again, so that the first build and the change see young
    /// files.
    fn wait_or_renew(&mut self) -> io::Result<()> {
        if !self.variant.young {
            std::thread::sleep(SETTLED.saturating_sub(self.since.elapsed()));
            return Ok(());
        }
        self.place.wipe()?;
        (self.case.setup)(&self.place)?;
        match self.variant.reversed {
            true => (self.case.change)(&self.place, &mut self.before.clone()),
            false => Ok(()),
        }
    }

    /// Restores the original toolchain, or applies the change.
    fn turn(&mut self, to_original: bool) -> io::Result<()> {
        let times = self.place.times();
        if to_original {
            self.place.wipe()?;
            (self.case.setup)(&self.place)?;
        } else {
            self.after = self.before.clone();
            (self.case.change)(&self.place, &mut self.after)?;
        }
        match self.variant.restores_times && self.case.expect != Expect::CannotMatter {
            true => self.place.restore_times(&times),
            false => Ok(()),
        }
    }

    fn build(&self, world: &World<'_>, original: bool) -> io::Result<Built> {
        world.build(if original { &self.before } else { &self.after })
    }

    fn compare(&self, old: &Built, new: &Built, expected: &Built, verdict: &mut Verdict) {
        let faults = &mut verdict.faults;
        faults.extend(same(new, expected, "after the change"));
        if expected.refused.is_empty() {
            faults.extend(refused(new, "after the change"));
        } else if self.case.may_refuse {
            verdict.refused.get_or_insert_with(|| expected.refused.join("; "));
        } else {
            faults.extend(refused(expected, "with the change, in a fresh store"));
        }
        let changed = changed(old, expected);
        match self.case.expect {
            Expect::Matters if verdict.refused.is_none() && changed.is_empty() => {
                faults.push(Fault::Vacuous("the change leaves each object as it was".to_owned()));
            }
            Expect::CannotMatter => {
                faults.extend(needless(new, "after the change"));
                if !changed.is_empty() {
                    let text = format!("the change, which cannot matter, changes {}", changed.join(", "));
                    faults.push(Fault::Vacuous(text));
                }
            }
            Expect::Matters | Expect::MayMatter => {}
        }
    }
}

/// The differences from an earlier build with the same toolchain and the same store.
fn unlike(built: &Built, before: &Built, when: &str) -> Vec<Fault> {
    let mut faults = same(built, before, when);
    if before.refused.is_empty() {
        faults.extend(needless(built, when));
        faults.extend(refused(built, when));
    }
    faults
}

/// Kernels that were refused although they can be built.
fn refused(built: &Built, when: &str) -> Option<Fault> {
    let reasons = || Fault::Refused(format!("{when}: {}", built.refused.join("; ")));
    (!built.refused.is_empty()).then(reasons)
}

/// Kernels that were built although the store has them.
fn needless(built: &Built, when: &str) -> Option<Fault> {
    let made: Vec<&str> =
        built.kernels.iter().filter(|(_, kernel)| !kernel.reused).map(|(name, _)| name.as_str()).collect();
    (!made.is_empty()).then(|| Fault::Needless(format!("{when}, {} is made again", made.join(", "))))
}

/// Kernels that differ from those of a fresh store.
fn same(built: &Built, expected: &Built, when: &str) -> Vec<Fault> {
    let judged = built.kernels.iter().filter_map(|(name, kernel)| {
        let how = if kernel.reused { "reused" } else { "made" };
        match expected.kernels.get(name) {
            None => Some(format!("{when}, {name} is {how}; a fresh store refuses it")),
            Some(fresh) if kernel.object != fresh.object => {
                let known = content_of(&kernel.object).zip(content_of(&fresh.object));
                let what = match known {
                    Some((one, other)) if one == other => {
                        "equal code under another key than in a fresh store"
                    }
                    _ => "an object that a fresh store does not get",
                };
                Some(format!("{when}, {name} is {how}: {what}"))
            }
            Some(fresh) if kernel.key != fresh.key => {
                Some(format!("{when}, {name} has another key than in a fresh store"))
            }
            Some(_) => None,
        }
    });
    judged.map(Fault::Stale).collect()
}

/// Kernels whose code changes, apart from names.
fn changed(old: &Built, new: &Built) -> Vec<String> {
    let names: HashSet<&String> = old.kernels.keys().chain(new.kernels.keys()).collect();
    let content = |built: &Built, name| built.kernels.get(name).map(|kernel| content_of(&kernel.object));
    let mut changed: Vec<String> =
        names.into_iter().filter(|name| content(old, *name) != content(new, *name)).cloned().collect();
    changed.sort();
    changed
}
