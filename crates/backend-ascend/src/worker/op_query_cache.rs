//! Operators' answers, kept for later processes: repeating a query would import the toolkit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use opkeep_digest::{Digest, Hasher};
use opkeep_fs::{Fs, private_user_dir};
use serde_json::{Value, json};

/// The maximum number of answers: more than any network needs.
const MOST: usize = 4096;
const LONGEST: u64 = 16 << 20;

/// Answers by the digest of the query and of everything that the answer may depend on.
#[derive(Debug, Default)]
pub(crate) struct OpQueryCache {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    answers: BTreeMap<String, Option<String>>,
    changed: bool,
}

impl OpQueryCache {
    /// The answers in `file`. A file that cannot be read, is damaged, or belongs to another user counts as empty.
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let read = |path: &PathBuf| parse(&Fs::new().read_own(path, LONGEST).ok()?);
        let answers = file.as_ref().and_then(read).unwrap_or_default();
        Self { file, known: Mutex::new(Known { answers, changed: false }) }
    }

    pub(crate) fn get(&self, question: &Digest) -> Option<Option<String>> {
        self.known().answers.get(&question.to_string()).cloned()
    }

    pub(crate) fn add(&self, question: &Digest, answer: Option<String>) {
        let mut known = self.known();
        known.answers.insert(question.to_string(), answer);
        known.changed = true;
    }

    /// Writes the answers if there are new ones. A failure is ignored: it only costs time in a later process.
    pub(crate) fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut known = self.known();
        if !std::mem::take(&mut known.changed) {
            return;
        }
        // It is unknown which answers a later build needs; no network needs so many.
        while known.answers.len() > MOST {
            known.answers.pop_first();
        }
        let body = json!(known.answers);
        let whole = json!({ "answers": body, "digest": digest(&body) });
        // If this fails, the old file stays valid.
        let _ = Fs::new().replace(file, &[whole.to_string().as_bytes()], 0o600);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(body: &Value) -> String {
    let mut hasher = Hasher::new("answers of operators");
    hasher.bytes(body.to_string().as_bytes());
    hasher.finish().to_string()
}

fn parse(bytes: &[u8]) -> Option<BTreeMap<String, Option<String>>> {
    let whole: Value = serde_json::from_slice(bytes).ok()?;
    let body = whole.get("answers")?;
    (whole["digest"] == digest(body).as_str()).then(|| serde_json::from_value(body.clone()).ok())?
}

/// The file of this user's answers, below a directory for temporary files.
pub(crate) fn file_below(dir: &Path) -> Option<PathBuf> {
    private_user_dir(dir).ok().map(|own| own.join("ascend-answers.json"))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests damage files")]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_and_damaged_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = file_below(dir.path()).unwrap();
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let answers = OpQueryCache::open(Some(file.clone()));
        assert_eq!(answers.get(&one), None);
        answers.add(&one, Some("{}".to_owned()));
        answers.add(&two, None);
        answers.save();
        let again = OpQueryCache::open(Some(file.clone()));
        assert_eq!((again.get(&one), again.get(&two)), (Some(Some("{}".to_owned())), Some(None)));
        let text = std::fs::read_to_string(&file).unwrap();
        for damaged in [text.replace("{}", "{ }"), text[..text.len() / 2].to_owned(), String::new()] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(OpQueryCache::open(Some(file.clone())).get(&one), None);
        }
        assert_eq!(OpQueryCache::open(None).get(&one), None);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let own = file_below(dir.path()).unwrap().parent().unwrap().to_owned();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(file_below(dir.path()), None);
    }
}
