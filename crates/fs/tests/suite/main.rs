//! Each public call, on a real file system.

#[cfg(test)]
mod dir;
#[cfg(test)]
mod fs;
#[cfg(test)]
mod lock;
#[cfg(test)]
mod rooted;
#[cfg(test)]
mod temp;
#[cfg(test)]
mod time;
#[cfg(test)]
mod watcher;
