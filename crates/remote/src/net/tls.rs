//! TLS, with the system's certificate authorities or with given ones.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use opkeep_cache::RemoteError;
use opkeep_cache::fs::{Fs, without_fork};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::url::Host;

/// The maximum size of a file of certificates, in bytes.
const LARGEST_FILE: u64 = 16 << 20;

/// The settings of encrypted connections.
pub(crate) struct Tls {
    /// A file of PEM certificates. `None`: the system's.
    authorities: Option<PathBuf>,
    /// The protocol that the server is told to speak, as ALPN names it.
    protocol: Option<&'static [u8]>,
    /// The settings, once a connection needed them: the system's certificates take milliseconds to read.
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    pub(crate) fn new(authorities: Option<PathBuf>) -> Self {
        Self { authorities, protocol: None, config: OnceLock::new() }
    }

    /// Tells the server to speak a protocol.
    #[cfg(feature = "grpc")]
    pub(super) fn set_protocol(&mut self, name: &'static [u8]) {
        self.protocol = Some(name);
    }

    /// Begins the session of one connection.
    pub(super) fn session(&self, host: &Host) -> Result<ClientConnection, RemoteError> {
        let unreachable = |reason| RemoteError::Unreachable { reason };
        let config = self.config().map_err(unreachable)?;
        let name = ServerName::try_from(host.name.clone())
            .map_err(|error| unreachable(format!("`{}` has no certificate: {error}", host.name)))?;
        ClientConnection::new(config, name).map_err(|error| unreachable(format!("TLS: {error}")))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let config = config(self.authorities.as_deref(), self.protocol)?;
        // A forked child must not find the cell while another thread fills it.
        without_fork(|| self.config.set(Arc::clone(&config)).ok());
        Ok(config)
    }
}

fn config(authorities: Option<&Path>, protocol: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let certificates = match authorities {
        Some(file) => certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let place = authorities.map_or("this system".to_owned(), |file| format!("`{}`", file.display()));
        return Err(format!("TLS: {place} has no certificate of an authority"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("TLS: {error}"))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols.extend(protocol.map(<[u8]>::to_vec));
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes =
        Fs::new().read(file, LARGEST_FILE).map_err(|error| format!("TLS: `{}`: {error}", file.display()))?;
    let certificates = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>();
    certificates.map_err(|error| format!("TLS: `{}` is no file of PEM certificates: {error}", file.display()))
}
