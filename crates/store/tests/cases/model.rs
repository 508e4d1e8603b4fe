//! A model of the store, seen from outside: the histories that are possible.
//!
//! Each action takes effect at some moment between its two lines. So one that ended before another began was first; of
//! two that overlap either may be first.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are not themselves marked as tests")]

use std::collections::HashMap;
use std::fmt;

/// An action of a thread on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    /// A put without a lock, unless there is an entry.
    PutOutcome,
    /// Get, lock, get again, quarantine a damaged entry, compile.
    Make,
    /// Lock, and put in any case.
    Force,
    Damage,
    Quarantined,
    Restamp,
    /// Age an entry, and collect old ones.
    Evict,
    /// Collect all entries.
    Clear,
    /// A get by the process that holds the lock and has just put an entry.
    GetHeld,
    /// A put of the process that holds the lock and found nothing.
    Compile,
}

impl Action {
    const ALL: [(Self, &str); 11] = [
        (Self::Get, "get"),
        (Self::PutOutcome, "put"),
        (Self::Make, "make"),
        (Self::Force, "force"),
        (Self::Damage, "damage"),
        (Self::Quarantined, "set-aside"),
        (Self::Restamp, "restamp"),
        (Self::Evict, "evict"),
        (Self::Clear, "clear"),
        (Self::GetHeld, "get-held"),
        (Self::Compile, "compile"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(action, _)| *action == self).unwrap().1
    }

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.iter().find(|(_, found)| *found == name).unwrap().0
    }
}

/// The result of an action. Entries are numbered by the process that wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saw {
    Hit(usize),
    Absent,
    Damaged,
    Published(usize),
    Existing,
    Quarantined(bool),
    Done,
}

impl fmt::Display for Saw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hit(number) => write!(f, "hit {number}"),
            Self::Absent => f.write_str("absent"),
            Self::Damaged => f.write_str("damaged"),
            Self::Published(number) => write!(f, "published {number}"),
            Self::Existing => f.write_str("there"),
            Self::Quarantined(moved) => write!(f, "moved {}", usize::from(*moved)),
            Self::Done => f.write_str("done"),
        }
    }
}

impl Saw {
    fn read(words: &[&str]) -> Self {
        let number = || words[1].parse::<usize>().unwrap();
        match words[0] {
            "hit" => Self::Hit(number()),
            "absent" => Self::Absent,
            "damaged" => Self::Damaged,
            "published" => Self::Published(number()),
            "there" => Self::Existing,
            "moved" => Self::Quarantined(number() == 1),
            "done" => Self::Done,
            other => panic!("{other}"),
        }
    }
}

/// An action, and the lines between which it ran. The end of a killed process's action is unknown.
#[derive(Clone, Copy, Debug)]
struct Event {
    who: usize,
    action: Action,
    which: usize,
    /// The entry that it writes, if it writes.
    writes: usize,
    saw: Option<Saw>,
    from: usize,
    to: usize,
}

impl Event {
    /// Whether it may have taken effect after `other` did, and before `until`.
    fn may_follow(&self, other: &Self, until: usize) -> bool {
        self.to > other.from && self.from < until
    }

    /// Whether it surely took effect before line `line`.
    fn is_before(&self, line: usize) -> bool {
        self.to < line
    }

    /// Whether the key had an entry at some moment of the action.
    fn had_entry(&self) -> bool {
        matches!(self.saw, Some(Saw::Published(_) | Saw::Existing)) && self.action != Action::Restamp
    }
}

/// A lock, and the lines between which it was held.
#[derive(Debug)]
struct Hold {
    who: usize,
    which: usize,
    from: usize,
    to: usize,
}

/// All actions and locks.
pub(crate) struct History {
    events: Vec<Event>,
    holds: Vec<Hold>,
    text: String,
}

impl History {
    pub(crate) fn read(text: &str) -> Self {
        let (mut events, mut holds) = (Vec::<Event>::new(), Vec::<Hold>::new());
        let (mut doing, mut held, mut writes) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut last = HashMap::new();
        for (line, content) in text.lines().enumerate() {
            let words: Vec<&str> = content.split(' ').collect();
            let who: usize = words[0].parse().unwrap();
            last.insert(who, line);
            match words[1..] {
                ["begins", action, which] => {
                    let (action, which) = (Action::named(action), which.parse().unwrap());
                    let writes = writes.get(&who).copied().unwrap_or(usize::MAX);
                    doing.insert(who, events.len());
                    events.push(Event { who, action, which, writes, saw: None, from: line, to: usize::MAX });
                }
                ["ends", ref saw @ ..] => {
                    let event = &mut events[doing[&who]];
                    (event.saw, event.to) = (Some(Saw::read(saw)), line);
                }
                ["writes", number] => drop(writes.insert(who, number.parse().unwrap())),
                ["locks", which] => {
                    held.insert(who, holds.len());
                    holds.push(Hold { who, which: which.parse().unwrap(), from: line, to: usize::MAX });
                }
                ["unlocks", _] => holds[held[&who]].to = line,
                _ => panic!("{content}"),
            }
        }
        for hold in holds.iter_mut().filter(|hold| hold.to == usize::MAX) {
            // Killed: it held the lock at least until its last line.
            hold.to = last[&hold.who];
        }
        Self { events, holds, text: text.to_owned() }
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Fails if the history is impossible.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.locks_exclude()?;
        for event in &self.events {
            match (event.action, event.saw) {
                (Action::Get | Action::GetHeld, Some(Saw::Hit(number))) => {
                    self.is_not_stale(event, number)?
                }
                (Action::Get | Action::GetHeld, Some(Saw::Absent | Saw::Damaged)) => {
                    self.is_not_lost(event)?
                }
                (Action::PutOutcome | Action::Compile, Some(Saw::Published(_))) => {
                    self.is_not_put_twice(event)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn refuse(&self, what: &str, event: &Event) -> Result<(), String> {
        Err(format!("{what}: {event:?}, in\n{}", self.text))
    }

    /// No lock has two holders at the same time.
    fn locks_exclude(&self) -> Result<(), String> {
        for (at, one) in self.holds.iter().enumerate() {
            for other in &self.holds[at + 1..] {
                if one.which == other.which && one.from < other.to && other.from < one.to {
                    return Err(format!("two hold a lock: {one:?} and {other:?}, in\n{}", self.text));
                }
            }
        }
        Ok(())
    }

    /// A found entry was put before, and no other was surely put between that and the get.
    fn is_not_stale(&self, look: &Event, number: usize) -> Result<(), String> {
        let on_key = || self.events.iter().filter(|event| event.which == look.which);
        let mut puts = on_key().filter(|event| match event.action {
            Action::PutOutcome | Action::Force | Action::Compile => event.writes == number,
            // It writes the entry that it read.
            Action::Restamp => event.saw.is_none_or(|saw| saw == Saw::Published(number)),
            _ => false,
        });
        let replaced = |put: &Event| {
            let is_put = |other: &&Event| matches!(other.saw, Some(Saw::Published(_)));
            let mut others = on_key().filter(is_put).filter(|other| other.action != Action::Restamp);
            others.any(|other| put.is_before(other.from) && other.is_before(look.from))
        };
        match puts.any(|put| put.from < look.to && !replaced(put)) {
            true => Ok(()),
            false => self.refuse("no process had put that then", look),
        }
    }

    /// A missing entry was removed by another process.
    fn is_not_lost(&self, look: &Event) -> Result<(), String> {
        let on_key = |event: &&Event| event.which == look.which && event.had_entry();
        for put in self.events.iter().filter(on_key).filter(|put| put.is_before(look.from)) {
            let held = look.action == Action::GetHeld && put.who == look.who;
            let mut takers = self.events.iter().filter(|other| other.may_follow(put, look.to));
            // While another process holds the lock, only a failing disk removes an entry.
            let taken = takers.any(|other| match held && self.same_hold(put, look) {
                true => other.action == Action::Damage && other.which == look.which,
                false => self.takes(other, look.which),
            });
            if !taken {
                return self.refuse("it was put, and no process took it away", look);
            }
        }
        Ok(())
    }

    fn same_hold(&self, one: &Event, other: &Event) -> bool {
        self.holds.iter().any(|hold| hold.who == one.who && hold.from < one.from && other.from < hold.to)
    }

    /// Whether an action may remove the entry of a key, or make it unreadable.
    fn takes(&self, event: &Event, which: usize) -> bool {
        match event.action {
            Action::Clear => true,
            Action::Damage | Action::Quarantined => event.which == which,
            // It collects entries that any process aged.
            Action::Evict => {
                let aged = |other: &Event| other.action == Action::Evict && other.which == which;
                self.events.iter().any(|other| aged(other) && other.from < event.to)
            }
            _ => false,
        }
    }

    /// An existing entry stays, unless another process forces it: so of the processes that miss an entry, one compiles it.
    fn is_not_put_twice(&self, second: &Event) -> Result<(), String> {
        let on_key = |event: &&Event| event.which == second.which && event.had_entry();
        for first in self.events.iter().filter(on_key).filter(|first| first.is_before(second.from)) {
            let mut between = self.events.iter().filter(|other| other.may_follow(first, second.to));
            if !between.any(|other| self.takes(other, second.which)) {
                return self.refuse("it was there, and put once more", second);
            }
        }
        Ok(())
    }
}
