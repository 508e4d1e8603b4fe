//! Certificates for servers that speak TLS, made by the program `openssl`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{disk, installed};

/// A certificate authority of one test, whose files go with it.
#[derive(Debug)]
pub struct TestAuthority {
    directory: TempDir,
}

/// What a certificate is valid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKind {
    /// For `localhost` and 127.0.0.1, from now on.
    Valid,
    /// For another host.
    OtherName,
    /// For `localhost` and 127.0.0.1, until yesterday.
    Expired,
}

/// The files of a server that speaks TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate of the authority, which clients have to trust.
    pub authority: PathBuf,
    /// Whether the server serves only clients that have a certificate of that authority.
    pub demands_clients: bool,
}

impl TlsFiles {
    /// The same, for a server that serves only clients with a certificate of its authority.
    #[must_use]
    pub fn for_known_clients(self) -> Self {
        Self { demands_clients: true, ..self }
    }
}

impl TestAuthority {
    /// Why no certificates can be made here; `None` if they can.
    pub fn missing() -> Option<String> {
        installed::of_system("openssl").err()
    }

    /// Makes an authority, which no client trusts by default.
    ///
    /// # Errors
    /// `openssl` is missing or fails.
    pub fn create() -> io::Result<Self> {
        let authority =
            Self { directory: tempfile::Builder::new().prefix("opkeep-certificates-").tempdir()? };
        let subject = ["-x509", "-days", "3650", "-subj", "/CN=opkeep test authority"];
        authority.openssl(&["req"], &subject, &["-keyout", "authority.key", "-out", "authority.pem"])?;
        Ok(authority)
    }

    /// The authority's certificate in PEM.
    pub fn certificate(&self) -> PathBuf {
        self.path("authority.pem")
    }

    /// Makes a certificate of a server.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn issue(&self, kind: CertificateKind) -> io::Result<TlsFiles> {
        self.issue_for("server", kind)
    }

    /// Makes a certificate of a client.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn issue_for_client(&self, kind: CertificateKind) -> io::Result<TlsFiles> {
        self.issue_for("client", kind)
    }

    fn issue_for(&self, owner: &str, kind: CertificateKind) -> io::Result<TlsFiles> {
        let (file, names, days) = match kind {
            CertificateKind::Valid => ("valid", "DNS:localhost,IP:127.0.0.1", "3650"),
            CertificateKind::OtherName => ("other-name", "DNS:other.invalid", "3650"),
            CertificateKind::Expired => ("expired", "DNS:localhost,IP:127.0.0.1", "-1"),
        };
        let [key, request, extensions, certificate] =
            ["key", "csr", "ext", "pem"].map(|extension| format!("{owner}-{file}.{extension}"));
        let subject = format!("/CN={owner}");
        self.openssl(&["req"], &["-new", "-subj", &subject], &["-keyout", &key, "-out", &request])?;
        let text =
            format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\nextendedKeyUsage={owner}Auth\n");
        disk::write(&self.path(&extensions), &text)?;
        let authority = ["-CA", "authority.pem", "-CAkey", "authority.key", "-set_serial", "1"];
        self.run(&[
            &["x509", "-req", "-in", &request, "-days", days, "-extfile", &extensions, "-out", &certificate],
            &authority[..],
        ])?;
        Ok(TlsFiles {
            certificate: self.path(&certificate),
            key: self.path(&key),
            authority: self.certificate(),
            demands_clients: false,
        })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// Runs `openssl` with a new key.
    fn openssl(&self, command: &[&str], subject: &[&str], files: &[&str]) -> io::Result<()> {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        self.run(&[command, &key, subject, files])
    }

    fn run(&self, arguments: &[&[&str]]) -> io::Result<()> {
        let program = installed::of_system("openssl")
            .map_err(|reason| io::Error::new(io::ErrorKind::NotFound, reason))?;
        let output = command_in(&program, self.directory.path()).args(arguments.concat()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("`openssl {}`: {errors}", arguments.concat().join(" "))))
    }
}

fn command_in(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    command
}
