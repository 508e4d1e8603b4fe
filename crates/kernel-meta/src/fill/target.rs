//! Writing another rank's kernel into a rank's folder.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use opbuild_descriptor::write_info;
use opbuild_digest::Digest;
use serde_json::Value;

use crate::compare::describes;
use crate::disk::{Folder, LOCK};
use crate::fill::donors::{Donor, MAX_OBJECT};
use crate::fill::ranks::{MAX_TEXT, Rank};
use crate::quarantine::dir::Quarantine;
use crate::quarantine::ground::Ground;
use crate::quarantine::journal::{Entry, Made, Role};
use crate::quarantine::{Run, io};
use crate::survey::look::{Dir, Read1};

/// As MindSpore leaves its descriptors.
const INFO_MODE: u32 = 0o400;
/// Temporary files of writers that died are removed when they are older.
const STALE: Duration = Duration::from_secs(30 * 60);

/// The files of a kernel for one rank.
#[derive(Debug)]
pub(crate) struct Ready {
    object: Vec<u8>,
    json: Vec<u8>,
    info: String,
    sha256: Digest,
}

/// The donor's kernel as the rank `target` has it under `stem`: its bytes, and a descriptor of the rank's own.
pub(crate) fn ready(
    donor: &Donor,
    from: &Rank<'_>,
    target: &Rank<'_>,
    stem: &str,
    device: u32,
) -> Result<Ready, String> {
    let changed = |file: &str| {
        format!("`rank_{}/kernel_meta/{file}` changed since it was looked at: run it again", from.name)
    };
    let read = |file: String, limit| {
        let mut bytes = Vec::new();
        match from.dir.as_ref().map(|dir| dir.read(&file, limit, &mut bytes)) {
            Some(Read1::Whole(_)) => Ok(bytes),
            _ => Err(changed(&file)),
        }
    };
    let object = read(format!("{}.o", donor.stem), MAX_OBJECT)?;
    let json = read(format!("{}.json", donor.stem), MAX_TEXT)?;
    if Digest::of(&object) != donor.sha256 || !describes(&json, &donor.sha256) {
        return Err(changed(&format!("{}.o", donor.stem)));
    }
    let mut descriptor = donor.descriptor.clone();
    descriptor.envelope.rename(stem);
    descriptor.envelope.source_id = Some(i64::from(device));
    let own = target.own_folders();
    for (name, value) in &mut descriptor.envelope.soc_info {
        match name.as_str() {
            "deviceId" => *value = device.to_string().into(),
            "op_debug_dir" | "kernel_meta_temp_dir" => {
                let moved = || in_rank(value, &from.name, &target.name);
                *value = own.and_then(|own| own.get(name)).cloned().unwrap_or_else(moved);
            }
            _ => {}
        }
    }
    // Whatever was changed, the name must still follow.
    if descriptor.named_by(stem) != donor.descriptor.named_by(&donor.stem) {
        return Err(format!("`{stem}` does not follow from the descriptor of `{}`", donor.stem));
    }
    Ok(Ready { object, json, info: write_info(&descriptor), sha256: donor.sha256 })
}

/// The folder of one rank in the place of another's.
fn in_rank(path: &Value, from: &str, to: &str) -> Value {
    let Some(text) = path.as_str() else { return path.clone() };
    let (from, to) = (format!("rank_{from}"), format!("rank_{to}"));
    let parts: Vec<&str> = text.split('/').map(|part| if part == from { &*to } else { part }).collect();
    parts.join("/").into()
}

impl Ready {
    /// The bytes of its files together.
    pub(crate) fn byte_len(&self) -> usize {
        self.object.len() + self.json.len() + self.info.len()
    }
}

/// A rank's folder that is being filled, locked.
#[derive(Debug)]
pub(crate) struct Site {
    folder: Folder,
    /// Holds the locks of all who work there.
    ground: Ground,
    /// What had to be made.
    made: Made,
}

/// What is noted of a turn before it is written.
#[derive(Debug)]
pub(crate) struct Record {
    quarantine: Quarantine,
    entries: Vec<Entry>,
    made: Made,
    /// Whether some kernel was not written after all.
    is_less: bool,
}

impl Record {
    /// The kernel with this number was not written.
    pub(crate) fn drop_one(&mut self, number: u64) {
        self.entries.retain(|entry| entry.set != number);
        self.is_less = true;
    }

    /// Neither was the kernel with this number, nor any after it.
    pub(crate) fn drop_from(&mut self, number: u64) {
        self.entries.retain(|entry| entry.set < number);
        self.is_less = true;
    }

    /// Leaves what was written on record. Best effort: what is noted and was not written is passed over when it is undone.
    pub(crate) fn close(self, site: &Site) {
        if self.entries.is_empty() {
            self.quarantine.clear(&site.ground);
            let _ = io::remove_folder(&site.ground.parent, &site.ground.quarantine);
        } else if self.is_less {
            let _ = self.quarantine.record_anew(&self.entries, self.made);
        }
    }
}

impl Site {
    /// Enters the folder of the rank `rank`, made if needed, if nobody is at work there.
    ///
    /// # Errors
    /// Who is, or why it cannot be entered.
    pub(crate) fn enter(base: &Path, rank: &str) -> Result<Self, String> {
        let name = format!("rank_{rank}");
        let path = base.join(&name).join("kernel_meta");
        let open = || {
            let base = Dir::open(base)?;
            let above = !io::exists(&base, &name);
            // Neither may be a link that leads elsewhere.
            let rank = io::folder(&base, OsStr::new(&name))?;
            let directory = !io::exists(&rank, "kernel_meta");
            let dir = io::folder(&rank, OsStr::new("kernel_meta"))?;
            Ok(Made { above, directory, lock: !io::exists(&dir, LOCK) })
        };
        let made = open().map_err(|error: std::io::Error| {
            format!(
                "cannot open the folder `{}`: {error}; make it a folder that this user may write",
                path.display()
            )
        })?;
        let ground = Ground::enter_locked(&path).map_err(|error| error.to_string())?;
        let folder = Folder::enter(&path, Duration::ZERO).map_err(|error| error.to_string())?;
        folder.give_lock();
        folder.remove_stale_temps(&folder.own_names(), folder.now(), STALE);
        Ok(Self { folder, ground, made })
    }

    /// Notes what is about to be written.
    ///
    /// # Errors
    /// Why it cannot: then nothing is to be written, since it could not be undone.
    pub(crate) fn record<'r>(
        &self,
        run: &Run,
        kernels: impl Iterator<Item = (&'r str, &'r Ready)>,
    ) -> Result<Record, String> {
        let mut entries = Vec::new();
        for (number, (stem, Ready { object: _, json, info, sha256 })) in (0..).zip(kernels) {
            let files = [("info", Digest::of(info.as_bytes())), ("o", *sha256), ("json", Digest::of(json))];
            let entry = |(suffix, digest): &(&str, Digest)| {
                let role = Role::Added { sha256: digest.to_string() };
                Entry::unseen(number, &format!("{stem}.{suffix}"), role, "filled from another rank")
            };
            entries.extend(files.iter().map(entry));
        }
        let quarantine = Quarantine::open(&self.ground, run, &entries, self.made);
        let quarantine = quarantine.map_err(|error| error.to_string())?;
        Ok(Record { quarantine, entries, made: self.made, is_less: false })
    }

    /// Puts a kernel there, its description last. Gives way to whoever makes it at once.
    ///
    /// # Errors
    /// Why it is not there, or another's.
    pub(crate) fn write(&self, stem: &str, ready: &Ready) -> Result<(), String> {
        let Ready { object, json, info, sha256 } = ready;
        let [json_name, object_name, info_name] =
            ["json", "o", "info"].map(|suffix| format!("{stem}.{suffix}"));
        let taken = |name: &str| format!("`{name}` is there already: somebody is making that kernel");
        if [&json_name, &object_name, &info_name].into_iter().any(|name| self.folder.exists(name)) {
            return Err(taken(stem));
        }
        let stage = |bytes: &[u8]| {
            let temp = self.folder.stage(bytes)?;
            temp.give();
            temp.sync().map(|()| temp)
        };
        let told = |error: crate::ViewError| error.to_string();
        let (info, object, json) =
            (stage(info.as_bytes()).map_err(told)?, stage(object).map_err(told)?, stage(json).map_err(told)?);
        info.restrict(INFO_MODE).map_err(told)?;
        let ours = json.identity().map_err(told)?;
        // A framework writes the descriptor first: who has that, has the kernel.
        for (temp, name) in [(info, &info_name), (object, &object_name), (json, &json_name)] {
            if !temp.publish_new(name).map_err(told)? {
                return Err(taken(name));
            }
        }
        // Somebody may have written the object anew since, which is his then, and so is the kernel.
        let is_right = self.folder.digest(&object_name).is_ok_and(|(digest, _)| digest == *sha256);
        if !is_right {
            if self.folder.identity(&json_name).is_some_and(|found| found.is_same_file(&ours)) {
                self.folder.unlink(&json_name).map_err(told)?;
            }
            return Err(taken(&object_name));
        }
        Ok(())
    }

    /// Brings the names to the disk.
    pub(crate) fn sync(&self) {
        self.folder.sync();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_does_not_stay_beside_an_object_that_is_not_its() {
        let base = tempfile::tempdir().unwrap();
        let site = Site::enter(base.path(), "0").unwrap();
        let ready = |sha256| Ready {
            object: b"object".to_vec(),
            json: b"{}".to_vec(),
            info: "{}".to_owned(),
            sha256,
        };
        // As if somebody had written the object anew the moment that it was there.
        site.write("a_1_0", &ready(Digest::of(b"another"))).unwrap_err();
        let there = |name: &str| base.path().join("rank_0/kernel_meta").join(name).exists();
        assert!(there("a_1_0.o") && !there("a_1_0.json"));
        site.write("a_2_0", &ready(Digest::of(b"object"))).unwrap();
        assert!(there("a_2_0.json"));
    }

    #[test]
    fn only_the_folder_of_the_rank_is_another() {
        for (path, expected) in [
            ("./rank_1/", "./rank_12/"),
            ("/x/rank_1/kernel_meta_temp_dir/", "/x/rank_12/kernel_meta_temp_dir/"),
            ("/x/rank_10/rank_1x", "/x/rank_10/rank_1x"),
        ] {
            assert_eq!(in_rank(&path.into(), "1", "12"), expected);
        }
    }
}
