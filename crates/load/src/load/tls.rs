//! Describes the TLS options of a load and builds the TLS configuration: trusted certificates,
//! client identity and offered protocols.

use super::trust::{KnownCertVerifier, LastRefusal, TlsError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which server certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TrustSource {
    /// Certificates that the operating system trusts.
    #[default]
    System,
    /// Only certificates in this file (PEM), and certificates that an authority in it has signed.
    Authority(PathBuf),
    /// Any certificate.
    Anyone,
}

/// The client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Certificate chain (PEM).
    pub certificates: PathBuf,
    /// Private key of the certificate (PEM).
    pub key: PathBuf,
}

/// TLS options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// Trusted certificates.
    pub trust: TrustSource,
    /// Client certificate, if the server requests one.
    pub identity: Option<ClientIdentity>,
    /// Server name for the handshake and the certificate check; the host by default.
    pub server_name: Option<String>,
}

impl TlsOptions {
    /// Returns the server name for handshakes with `host`.
    ///
    /// # Errors
    /// Fails if the name is neither a DNS name nor an IP address.
    pub fn name_for(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.trim_matches(['[', ']']).to_owned())
            .map_err(|_| TlsError::Name(name.to_owned()))
    }

    /// Builds the TLS configuration; `protocols` are offered by ALPN (RFC 7301). If a certificate
    /// is rejected, `last_refusal` holds the reason.
    ///
    /// # Errors
    /// Fails if a file cannot be read or there is no trusted authority.
    pub fn client_config(
        &self,
        protocols: &[&[u8]],
        last_refusal: &Arc<LastRefusal>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let trusted = match &self.trust {
            TrustSource::System => {
                Some(KnownCertVerifier::from_system(provider.clone(), last_refusal.clone())?)
            }
            TrustSource::Authority(file) => {
                let trusted = read_certificates(file)?;
                Some(KnownCertVerifier::from_user_file(
                    trusted,
                    provider.clone(),
                    last_refusal.clone(),
                )?)
            }
            TrustSource::Anyone => None,
        };
        let verifier: Arc<dyn ServerCertVerifier> = match trusted {
            Some(trusted) => Arc::new(trusted),
            None => Arc::new(AcceptAnyVerifier(provider)),
        };
        let with_verifier = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => with_verifier.with_no_client_auth(),
            Some(identity) => with_verifier.with_client_auth_cert(
                read_certificates(&identity.certificates)?,
                read_private_key(&identity.key)?,
            )?,
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

fn file_error(file: &Path, why: impl ToString) -> TlsError {
    TlsError::File { file: file.to_owned(), why: why.to_string() }
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| file_error(file, error))?;
    if certificates.is_empty() {
        Err(file_error(file, "no certificate found"))
    } else {
        Ok(certificates)
    }
}

fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| file_error(file, error))
}

/// Accepts any certificate, but still verifies that the peer has its private key.
#[derive(Debug)]
struct AcceptAnyVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer,
        _: &[CertificateDer],
        _: &ServerName,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
