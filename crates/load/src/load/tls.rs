//! How TLS is spoken: whom to trust, who we are, and the protocol that is asked for.

use super::trust::{LastRefusal, TrustKnown};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whose certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Those that the operating system trusts.
    #[default]
    System,
    /// Those signed by an authority in this file (PEM), and no others.
    Authority(PathBuf),
    /// Any.
    Anyone,
}

/// The certificate that the client shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// A chain of certificates (PEM).
    pub certificates: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
}

/// How TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// Whom to trust.
    pub trust: Trust,
    /// Who we are, if the server asks.
    pub identity: Option<Identity>,
    /// The name in the handshake, against which the certificate is checked: the host by default.
    pub server_name: Option<String>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read as PEM.
    #[error("cannot read certificates or a key from '{}': {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system's list of authorities.
    #[error("the operating system has no list of trusted authorities: {0}")]
    System(String),
    /// A name that cannot be in a handshake.
    #[error("'{0}' is neither a name nor an address that TLS can check")]
    Name(String),
    /// What the TLS library refuses.
    #[error("cannot set up TLS: {0}")]
    Library(#[from] rustls::Error),
}

impl TlsOptions {
    /// The name to put into handshakes with `host`.
    ///
    /// # Errors
    /// It is neither a DNS name nor an address.
    pub fn name_for(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.trim_matches(['[', ']']).to_owned())
            .map_err(|_| TlsError::Name(name.to_owned()))
    }

    /// What the TLS library needs; `protocols` are offered by ALPN (RFC 7301). Why a certificate is refused is kept in
    /// `refused`.
    ///
    /// # Errors
    /// A file that cannot be read, or no authority at all.
    pub fn config(
        &self,
        protocols: &[&[u8]],
        refused: &Arc<LastRefusal>,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let trusted = match &self.trust {
            Trust::System => Some(TrustKnown::system(provider.clone(), refused.clone())?),
            Trust::Authority(file) => {
                let known = certificates(file)?;
                Some(TrustKnown::given(known, provider.clone(), refused.clone())?)
            }
            Trust::Anyone => None,
        };
        let verifier: Arc<dyn ServerCertVerifier> = match trusted {
            Some(known) => Arc::new(known),
            None => Arc::new(TrustAnyone(provider)),
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder.with_client_auth_cert(
                certificates(&identity.certificates)?,
                key(&identity.key)?,
            )?,
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

fn unreadable(file: &Path, why: impl ToString) -> TlsError {
    TlsError::File {
        file: file.to_owned(),
        why: why.to_string(),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(file, error))?;
    if found.is_empty() {
        Err(unreadable(file, "it holds no certificate"))
    } else {
        Ok(found)
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unreadable(file, error))
}

/// Accepts every certificate, and still checks that the peer holds its key.
#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
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
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
