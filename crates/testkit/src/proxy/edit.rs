//! Changes of the bytes of one direction.

use std::collections::VecDeque;

use super::settings::FaultKind;

/// The bytes of one direction of a connection, with the changes that began and did not end.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// The first one is applied, the next after its end.
    begun: VecDeque<Edit>,
}

#[derive(Debug)]
enum Edit {
    Corrupt(u8),
    Repeat { length: usize, passed: Vec<u8> },
    Swap { length: usize, held: Vec<u8> },
    Omit { left: usize },
}

impl Edits {
    /// Begins a change at the next byte. Does nothing if the kind changes no bytes.
    pub(super) fn begin(&mut self, kind: FaultKind) {
        self.begun.extend(match kind {
            FaultKind::Corrupt(mask) => Some(Edit::Corrupt(mask)),
            FaultKind::Repeat(length) => Some(Edit::Repeat { length, passed: Vec::new() }),
            FaultKind::Swap(length) => Some(Edit::Swap { length, held: Vec::new() }),
            FaultKind::Omit(left) => Some(Edit::Omit { left }),
            FaultKind::Close | FaultKind::Reset | FaultKind::HalfClose | FaultKind::Silence => None,
        });
    }

    /// What is forwarded instead of `bytes`. Bytes that are held back come with later ones.
    pub(super) fn apply(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut forwarded = Vec::with_capacity(bytes.len());
        while let Some(edit) = self.begun.front_mut().filter(|_| !bytes.is_empty()) {
            let (taken, ends) = edit.step(bytes, &mut forwarded);
            bytes = &bytes[taken..];
            if ends {
                self.begun.pop_front();
            }
        }
        forwarded.extend_from_slice(bytes);
        forwarded
    }
}

impl Edit {
    /// Takes some of the bytes, and returns their number and whether the change has ended.
    fn step(&mut self, bytes: &[u8], forwarded: &mut Vec<u8>) -> (usize, bool) {
        match self {
            Self::Corrupt(mask) => {
                forwarded.push(bytes[0] ^ *mask);
                (1, true)
            }
            Self::Repeat { length, passed } => {
                let taken = bytes.len().min(*length - passed.len());
                passed.extend_from_slice(&bytes[..taken]);
                forwarded.extend_from_slice(&bytes[..taken]);
                let ends = passed.len() == *length;
                if ends {
                    forwarded.append(passed);
                }
                (taken, ends)
            }
            Self::Swap { length, held } => {
                let taken = bytes.len().min(2 * *length - held.len());
                held.extend_from_slice(&bytes[..taken]);
                let ends = held.len() == 2 * *length;
                if ends {
                    held.rotate_left(*length);
                    forwarded.append(held);
                }
                (taken, ends)
            }
            Self::Omit { left } => {
                let taken = bytes.len().min(*left);
                *left -= taken;
                (taken, *left == 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `text` in pieces of each size, from the beginning.
    fn edited(kinds: &[FaultKind], text: &str) -> String {
        let in_pieces = |size: usize| {
            let mut edits = Edits::default();
            kinds.iter().for_each(|kind| edits.begin(*kind));
            let pieces = text.as_bytes().chunks(size).flat_map(|piece| edits.apply(piece));
            String::from_utf8(pieces.collect()).unwrap()
        };
        let whole = in_pieces(text.len());
        for size in 1..text.len() {
            assert_eq!(in_pieces(size), whole, "{kinds:?} in pieces of {size}");
        }
        whole
    }

    #[test]
    fn each_change_is_the_same_in_pieces_of_any_size() {
        assert_eq!(edited(&[], "abcdefgh"), "abcdefgh");
        assert_eq!(edited(&[FaultKind::Corrupt(0x20)], "abcdefgh"), "Abcdefgh");
        assert_eq!(edited(&[FaultKind::Repeat(3)], "abcdefgh"), "abcabcdefgh");
        assert_eq!(edited(&[FaultKind::Swap(2)], "abcdefgh"), "cdabefgh");
        assert_eq!(edited(&[FaultKind::Omit(3)], "abcdefgh"), "defgh");
        assert_eq!(edited(&[FaultKind::Omit(1), FaultKind::Corrupt(0x20)], "abcdefgh"), "Bcdefgh");
        // Without enough bytes, the rest is held back.
        assert_eq!(edited(&[FaultKind::Swap(5)], "abcdefgh"), "");
    }

    #[test]
    fn a_change_of_no_bytes_changes_nothing() {
        for kind in [FaultKind::Repeat(0), FaultKind::Swap(0), FaultKind::Omit(0), FaultKind::Corrupt(0)] {
            assert_eq!(edited(&[kind], "abcdefgh"), "abcdefgh");
        }
    }
}
