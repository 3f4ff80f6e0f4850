//! Loads the server's TLS certificate and private key from PEM files.

use crate::http::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Certificate chain and private key, for TLS 1.2 and 1.3.
#[derive(Clone)]
pub struct TlsIdentity {
    pub(crate) config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl TlsIdentity {
    /// Reads the certificate and the key from files.
    ///
    /// # Errors
    /// Fails if a file cannot be read or holds no certificate or key, or if certificate and key do
    /// not match.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<TlsIdentity, Error> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| Error::File(path.to_path_buf(), error))
        };
        TlsIdentity::from_pem(&read(certificate)?, &read(key)?)
    }

    /// Parses the contents of the certificate file and the key file.
    ///
    /// # Errors
    /// Fails if a file holds no certificate or key, or if certificate and key do not match.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<TlsIdentity, Error> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(certificate)
                .collect::<Result<_, _>>()
                .map_err(|error| Error::Tls(format!("the certificate is not PEM: {error}")))?;
        if chain.is_empty() {
            return Err(Error::Tls("the certificate file contains no certificate".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| Error::Tls(format!("cannot read a PEM private key: {error}")))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| Error::Tls(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsIdentity { config: Arc::new(config) })
    }
}
