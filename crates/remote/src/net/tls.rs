//! TLS, with the system's certificate authorities or with given ones, and with a certificate of this client if it has one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use opkeep_cache::fs::{ForkSafeCell, Fs, without_fork};
use opkeep_cache::{Digest, RemoteError};
use opkeep_trust::{SecretBytes, read_secret_file};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::options::{ClientCertificate, OpenOptions};
use crate::url::Host;

/// The maximum size of a file of certificates, in bytes.
const LARGEST_FILE: u64 = 16 << 20;

/// The settings of encrypted connections.
pub(crate) struct Tls {
    /// A file of PEM certificates. `None`: the system's.
    authorities: Option<PathBuf>,
    /// The files of this client's certificate.
    client: Option<ClientCertificate>,
    /// The protocol that the server must speak, as ALPN names it.
    protocol: Option<&'static [u8]>,
    /// The authorities, once a connection needed them: the system's certificates take milliseconds to read.
    roots: ForkSafeCell<Arc<RootCertStore>>,
    /// The settings of the last connection.
    last: Mutex<Option<Settings>>,
}

/// The settings of a connection.
#[derive(Clone)]
struct Settings {
    /// The digest of the files of the client's certificate.
    files: Option<Digest>,
    config: Arc<ClientConfig>,
}

/// Begins a session whose server is not trusted: its first message shows whether the server speaks TLS, and no other one is sent.
pub(super) fn unverified(host: &Host) -> Result<ClientConnection, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name =
        ServerName::try_from(host.name.clone()).map_err(|error| rustls::Error::General(error.to_string()))?;
    ClientConnection::new(Arc::new(config), name)
}

impl Tls {
    pub(crate) fn new(options: &OpenOptions) -> Self {
        let OpenOptions { authorities, client_certificate, .. } = options;
        Self {
            authorities: authorities.clone(),
            client: client_certificate.clone(),
            protocol: None,
            roots: ForkSafeCell::new(),
            last: Mutex::default(),
        }
    }

    /// Requests a protocol from the server.
    #[cfg(feature = "grpc")]
    pub(super) fn set_protocol(&mut self, name: &'static [u8]) {
        self.protocol = Some(name);
    }

    /// Begins the session of one connection.
    pub(super) fn session(&self, host: &Host) -> Result<ClientConnection, RemoteError> {
        let config = self.config()?;
        let name = ServerName::try_from(host.name.clone())
            .map_err(|error| unreachable(format!("`{}` has no certificate: {error}", host.name)))?;
        ClientConnection::new(config, name).map_err(|error| unreachable(format!("TLS: {error}")))
    }

    /// Returns the settings of a new connection: those of the last one, unless the files of the client's certificate have changed.
    fn config(&self) -> Result<Arc<ClientConfig>, RemoteError> {
        let files = self.client.as_ref().map(Files::read).transpose()?;
        let digest = files.as_ref().map(Files::digest);
        let last = self.change(|last| last.clone());
        if let Some(settings) = last.filter(|settings| settings.files == digest) {
            return Ok(settings.config);
        }
        let config = Arc::new(self.new_config(files)?);
        let settings = Settings { files: digest, config: Arc::clone(&config) };
        drop(self.change(|last| last.replace(settings)));
        Ok(config)
    }

    fn new_config(&self, files: Option<Files<'_>>) -> Result<ClientConfig, RemoteError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| unreachable(format!("TLS: {error}")))?;
        let config = config.with_root_certificates(self.roots()?);
        let mut config = match files {
            None => config.with_no_client_auth(),
            Some(files) => {
                let paths = files.paths;
                let (certificates, key) = files.parse()?;
                config.with_client_auth_cert(certificates, key).map_err(|error| {
                    refused(format!(
                        "TLS: the client's certificate in `{}` cannot be used with the key in `{}`: {error}",
                        paths.certificate.display(),
                        paths.key.display()
                    ))
                })?
            }
        };
        config.alpn_protocols.extend(self.protocol.map(<[u8]>::to_vec));
        Ok(config)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, RemoteError> {
        if let Some(roots) = self.roots.get() {
            return Ok(Arc::clone(roots));
        }
        let mut roots = RootCertStore::empty();
        let certificates = match &self.authorities {
            Some(file) => certificates(file, &read(file).map_err(unreachable)?).map_err(unreachable)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(certificates);
        if roots.is_empty() {
            let file = self.authorities.as_ref().map(|file| format!("`{}`", file.display()));
            let place = file.unwrap_or_else(|| "this system".to_owned());
            return Err(unreachable(format!("TLS: {place} has no certificate of an authority")));
        }
        Ok(Arc::clone(self.roots.get_or_init(|| Arc::new(roots))))
    }

    fn change<A>(&self, change: impl FnOnce(&mut Option<Settings>) -> A) -> A {
        without_fork(|| change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The content of the files of a client's certificate.
struct Files<'a> {
    paths: &'a ClientCertificate,
    certificate: Vec<u8>,
    key: SecretBytes,
}

impl<'a> Files<'a> {
    fn read(paths: &'a ClientCertificate) -> Result<Self, RemoteError> {
        let certificate = read(&paths.certificate).map_err(refused)?;
        let key = read_secret_file(&Fs::new(), &paths.key, LARGEST_FILE);
        let key = key.map_err(|error| refused(format!("TLS: {error}")))?;
        Ok(Self { paths, certificate, key })
    }

    fn digest(&self) -> Digest {
        let digests = [Digest::of(&self.certificate), Digest::of(&self.key)];
        Digest::of(format!("{} {}", digests[0], digests[1]).as_bytes())
    }

    fn parse(self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), RemoteError> {
        let chain = certificates(&self.paths.certificate, &self.certificate).map_err(refused)?;
        if chain.is_empty() {
            let file = self.paths.certificate.display();
            return Err(refused(format!("TLS: `{file}` has no certificate in PEM")));
        }
        // What is wrong with a key is not shown: it would be a part of the key.
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            let file = self.paths.key.display();
            refused(format!("TLS: `{file}` has no private key in PEM without encryption"))
        })?;
        Ok((chain, key))
    }
}

fn unreachable(reason: String) -> RemoteError {
    RemoteError::Unreachable { reason }
}

fn refused(reason: String) -> RemoteError {
    RemoteError::Refused { reason }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    Fs::new().read(file, LARGEST_FILE).map_err(|error| format!("TLS: `{}`: {error}", file.display()))
}

fn certificates(file: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(content).collect::<Result<_, _>>();
    certificates.map_err(|_| format!("TLS: `{}` is no file of PEM certificates", file.display()))
}
