//! Calls that change what is no content, or that reach other processes.

use std::io;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

use super::Watch;
use crate::ffi::{Call, Waiting};
use crate::sandbox::peers::{Address, Peer, is_log, is_name_service};
use crate::sandbox::proc::link;
use crate::sandbox::{Found, Unkeyed};

impl Watch {
    /// Records that the programs change the mode, the owner or the dates of a file: the call shows whether it exists, and a later run
    /// without the call would miss its effect.
    pub(super) fn change(&mut self, waiting: &Waiting, path: PathBuf) -> io::Result<()> {
        self.observe_look(waiting, path.clone())?;
        let found = Found::at(&path);
        if found.is_directory() && !self.is_created(&path) && !self.has_name_in_work_dir(&path) {
            self.writes.change_dir(self.recorded_path(path), found);
        } else if Fs::new().symlink_metadata(&path).is_ok() {
            let is_whole = self.writes.is_whole(&path);
            self.add_written(&path, is_whole);
            self.written.insert(path);
        }
        Ok(())
    }

    /// Lets a change of extended attributes fail as on a file system without them.
    pub(super) fn refuse_attribute(&mut self, waiting: &Waiting, path: PathBuf) -> io::Result<()> {
        self.observe_look(waiting, path.clone())?;
        // A missing file has an error of its own.
        if Fs::new().symlink_metadata(&path).is_ok() {
            self.denied = Some(libc::EOPNOTSUPP);
            self.refused_by_program(waiting);
        }
        Ok(())
    }

    /// Records that a program makes a call that it would not fail without an observer.
    pub(super) fn refused_by_program(&mut self, waiting: &Waiting) {
        let program = link(Path::new(&format!("/proc/{}/exe", waiting.thread)));
        self.seen.refused.get_or_insert(program.unwrap_or_default());
    }

    /// Records a pipe or a device that is opened for writing only.
    pub(super) fn write_special(&mut self, path: &Path, found: &Found) {
        if found.is_special() && Unkeyed::covering(path).is_none_or(|unkeyed| !unkeyed.is_volatile) {
            self.seen.peers.insert(Peer::File(path.to_owned()));
        }
    }

    /// Records the sockets that a call names.
    pub(super) fn name_sockets(&mut self, waiting: &Waiting, call: Call) -> io::Result<()> {
        let binds = call == Call::Bind;
        for address in waiting.addresses()? {
            match Address::of(&address) {
                Address::Path(name) => {
                    let Some(path) = self.resolve(waiting, None, name)? else { continue };
                    match binds {
                        true => self.bind(waiting, path)?,
                        false => self.connect(waiting, path)?,
                    }
                }
                Address::Abstract(name) if binds => drop(self.bound.insert(name)),
                Address::Abstract(name) if self.bound.contains(&name) => {}
                // The kernel chooses a port, and no other process knows it before.
                Address::Network(address) if binds && address.port() == 0 => {}
                Address::None => {}
                // A table of the kernel is asked by a message, not by a name.
                Address::Other(_) if binds => {}
                address => drop(self.seen.peers.insert(Peer::Address(address.in_words()))),
            }
        }
        Ok(())
    }

    /// Records a socket that the programs create.
    fn bind(&mut self, waiting: &Waiting, path: PathBuf) -> io::Result<()> {
        self.note_call(waiting, Call::Bind, &path)?;
        if Found::at(&path).is_nothing() {
            self.add_written(&path, true);
            self.add_special(waiting, &path);
        }
        Ok(())
    }

    /// Records a socket that the programs did not create.
    fn connect(&mut self, waiting: &Waiting, path: PathBuf) -> io::Result<()> {
        if is_name_service(&path) {
            // As where it does not run.
            self.denied = Some(libc::ENOENT);
        } else if Found::at(&path).is_nothing() {
            self.observe_look(waiting, path)?;
        } else if !is_log(&path) && !self.is_in_work_dir(&path) && !self.is_created(&path) {
            self.seen.peers.insert(Peer::File(path));
        }
        Ok(())
    }
}
