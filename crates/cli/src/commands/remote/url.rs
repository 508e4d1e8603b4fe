//! The URL of a remote cache, from the arguments and the environment.

use anyhow::bail;

use crate::ui::env;

/// Returns the URL of the command line; if there is none, that of the environment.
pub(crate) fn url(named: Option<&str>) -> anyhow::Result<String> {
    match named {
        Some(url) => Ok(url.to_owned()),
        None => match env::text(env::REMOTE)? {
            Some(url) => Ok(url),
            None => bail!("no remote cache is named: give its URL, or set {}", env::REMOTE),
        },
    }
}
