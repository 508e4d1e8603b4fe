//! The messages whose signatures this process has verified.

use std::collections::HashSet;
use std::sync::Mutex;

use opkeep_trust::Message;

/// The maximum number of messages. One is about a hundred bytes.
const MAX: usize = 4096;

/// The messages that trusted keys have signed, as this process has verified. They are kept in its memory, since others who can write
/// to the store could forge a record there. A message covers all that is signed, so it says the same of an entry with that message again.
#[derive(Default)]
pub(super) struct Verified(Mutex<HashSet<Box<[u8]>>>);

impl Verified {
    /// Whether the message is known to be signed.
    pub(super) fn knows(&self, message: &Message) -> bool {
        // In a forked child the lock may be held for ever: then it verifies each time.
        self.0.try_lock().is_ok_and(|known| known.contains(message.as_bytes()))
    }

    /// Whether `verify` returned `Ok` for the message before, or does now.
    pub(super) fn check<E>(
        &self,
        message: &Message,
        verify: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.knows(message) {
            return Ok(());
        }
        verify()?;
        if let Ok(mut known) = self.0.try_lock() {
            if known.len() >= MAX {
                known.clear();
            }
            known.insert(message.as_bytes().into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use opkeep_digest::Digest;
    use opkeep_trust::{EntryDigest, SignedEntry};

    use super::*;

    fn message(number: usize) -> Message {
        let key = Digest::of(&number.to_le_bytes());
        let content = EntryDigest::of(&key, []).unwrap();
        SignedEntry { format: 2, namespace: "default", target: "cpu", key: &key, content: &content }.message()
    }

    #[test]
    fn only_what_was_verified_is_known() {
        let verified = Verified::default();
        assert_eq!(verified.check(&message(1), || Err("forged")), Err("forged"));
        assert_eq!(verified.check(&message(1), || Err("forged")), Err("forged"));
        assert_eq!(verified.check(&message(1), || Ok::<_, &str>(())), Ok(()));
        assert_eq!(verified.check(&message(1), || Err("is not asked")), Ok(()));
        assert_eq!(verified.check(&message(2), || Err("forged")), Err("forged"));
    }

    #[test]
    fn it_is_bounded() {
        let verified = Verified::default();
        for number in 0..2 * MAX + 1 {
            assert_eq!(verified.check(&message(number), || Ok::<_, ()>(())), Ok(()));
            assert!(verified.0.lock().unwrap().len() <= MAX);
        }
    }
}
