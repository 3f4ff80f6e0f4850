//! Verifies server certificates and explains rejections.
//!
//! If the user names a file, both the authorities and the server certificates in it are trusted, as
//! in curl. Start at [`KnownCertVerifier`]. Certificate fields are parsed in `x509.rs`.

use super::x509::{common_name, is_self_issued, issuer_name};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("cannot read certificates or a key from '{}': {why}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// The operating system's list of authorities is unavailable.
    #[error("cannot load the system's trusted certificates: {0}")]
    System(String),
    /// The server name cannot be used in a handshake.
    #[error("invalid TLS server name '{0}': expected a DNS name or an IP address")]
    Name(String),
    /// An error of the TLS library.
    #[error("cannot set up TLS: {0}")]
    Library(#[from] rustls::Error),
}

/// Why a certificate was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateRefusal {
    /// The certificate expired this long ago.
    Expired(Duration),
    /// The certificate becomes valid only after this much time.
    NotYetValid(Duration),
    /// The certificate was issued for other names.
    Name {
        /// Name of the server.
        wanted: String,
        /// Names in the certificate.
        presented: Vec<String>,
    },
    /// The certificate, with this common name, is self-signed and not trusted.
    SelfSigned(String),
    /// The issuer of the certificate, with this common name, is not trusted.
    Issuer(String),
    /// Another reason, as reported by the TLS library.
    Other(String),
}

impl fmt::Display for CertificateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateRefusal::Expired(ago) => {
                write!(f, "it expired {} ago", format_duration(*ago))
            }
            CertificateRefusal::NotYetValid(until) => {
                write!(f, "it becomes valid in {}; check the clock", format_duration(*until))
            }
            CertificateRefusal::Name { wanted, presented } if presented.is_empty() => {
                write!(f, "it contains no name, but '{wanted}' was expected")
            }
            CertificateRefusal::Name { wanted, presented } => {
                let names: Vec<String> = presented.iter().map(|name| format!("'{name}'")).collect();
                write!(f, "it is for {}, not for '{wanted}'", names.join(", "))
            }
            CertificateRefusal::SelfSigned(name) => {
                write!(f, "it is self-signed ('{name}') and not trusted")
            }
            CertificateRefusal::Issuer(name) => write!(f, "its issuer '{name}' is not trusted"),
            CertificateRefusal::Other(error) => f.write_str(error),
        }
    }
}

/// Formats a duration in its largest unit, rounded down.
fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute")];
    let unit = units.iter().find(|(length, _)| seconds >= *length);
    let (length, name) = unit.copied().unwrap_or((1, "second"));
    let count = seconds / length;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// The reason for the latest rejection of a certificate. QUIC itself preserves only an alert.
#[derive(Debug, Default)]
pub struct LastRefusal(Mutex<Option<CertificateRefusal>>);

impl LastRefusal {
    fn store_refusal(&self, refusal: CertificateRefusal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }

    /// Returns the latest rejection since the last call, if any.
    pub fn take(&self) -> Option<CertificateRefusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Accepts certificates that a trusted authority has signed, and trusted certificates themselves.
#[derive(Debug)]
pub(super) struct KnownCertVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    /// Certificates that are trusted without an authority.
    accepted: Vec<CertificateDer<'static>>,
    /// Whether to use the common name if a certificate has no alternative names.
    takes_common_name: bool,
    last_refusal: Arc<LastRefusal>,
}

impl KnownCertVerifier {
    /// Trusts the certificates in the user's file.
    pub(super) fn from_user_file(
        trusted: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
        last_refusal: Arc<LastRefusal>,
    ) -> Result<KnownCertVerifier, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in &trusted {
            roots.add(certificate.clone())?;
        }
        Ok(KnownCertVerifier {
            authorities: build_verifier(roots, provider)?,
            accepted: trusted,
            takes_common_name: true,
            last_refusal,
        })
    }

    /// Trusts what the operating system trusts.
    pub(super) fn from_system(
        provider: Arc<CryptoProvider>,
        last_refusal: Arc<LastRefusal>,
    ) -> Result<KnownCertVerifier, TlsError> {
        let native = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(native.certs.iter().cloned());
        if added == 0 {
            let error = native.errors.first().map(ToString::to_string);
            return Err(TlsError::System(error.unwrap_or_else(|| "none found".into())));
        }
        Ok(KnownCertVerifier {
            authorities: build_verifier(roots, provider)?,
            accepted: native.certs,
            takes_common_name: false,
            last_refusal,
        })
    }

    /// Reconsiders a certificate that the authorities do not vouch for. `openssl req -x509` marks
    /// its certificates as authorities, and the library rejects authorities as servers.
    fn reconsider(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        error: rustls::Error,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let rustls::Error::InvalidCertificate(reason) = &error else {
            return Err(error);
        };
        // The library checks validity dates before the issuer, and the name last (verify_cert.rs of
        // rustls-webpki 0.103). A certificate that fails because of its issuer is therefore within
        // its validity period. One that fails because of its name also has a trusted issuer.
        let is_accepted = || self.accepted.iter().any(|accepted| **accepted == **certificate);
        if is_without_issuer(reason) && is_accepted() {
            let parsed = ParsedCertificate::try_from(certificate)?;
            return match verify_server_name(&parsed, name) {
                Err(rustls::Error::InvalidCertificate(reason)) => {
                    self.check_common_name(certificate, name, reason)
                }
                other => other.map(|()| ServerCertVerified::assertion()),
            };
        }
        self.check_common_name(certificate, name, reason.clone())
    }

    /// Accepts a matching common name, as curl does. The certificate must have no alternative
    /// names, and the user must have named a file of trusted certificates.
    fn check_common_name(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        reason: CertificateError,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let has_no_name = matches!(
            &reason,
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty()
        );
        let matches_common_name = || {
            common_name(certificate).is_some_and(|found| found.eq_ignore_ascii_case(&name.to_str()))
        };
        if self.takes_common_name && has_no_name && matches_common_name() {
            return Ok(ServerCertVerified::assertion());
        }
        Err(reason.into())
    }
}

fn build_verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.build().map_err(|error| TlsError::Library(rustls::Error::General(error.to_string())))
}

/// Whether the library found no issuer for the certificate: the issuer's name is unknown, its key
/// differs, or the certificate is an authority itself.
fn is_without_issuer(reason: &CertificateError) -> bool {
    use CertificateError::{BadSignature, UnknownIssuer};
    matches!(reason, UnknownIssuer | BadSignature) || is_authority(reason)
}

fn is_authority(reason: &CertificateError) -> bool {
    matches!(webpki_error(reason), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Returns the error of the underlying webpki library, which distinguishes more cases.
fn webpki_error(reason: &CertificateError) -> Option<&webpki::Error> {
    match reason {
        CertificateError::Other(other) => other.0.downcast_ref(),
        _ => None,
    }
}

/// Explains why a certificate was rejected.
fn explain_refusal(error: &rustls::Error, certificate: &CertificateDer<'_>) -> CertificateRefusal {
    let rustls::Error::InvalidCertificate(reason) = error else {
        return CertificateRefusal::Other(error.to_string());
    };
    let distance = |first: &UnixTime, second: &UnixTime| {
        Duration::from_secs(first.as_secs().abs_diff(second.as_secs()))
    };
    match reason {
        CertificateError::ExpiredContext { time, not_after } => {
            CertificateRefusal::Expired(distance(time, not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            CertificateRefusal::NotYetValid(distance(time, not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            CertificateRefusal::Name {
                wanted: expected.to_str().into_owned(),
                presented: certificate_names(presented, certificate),
            }
        }
        _ if is_without_issuer(reason) && is_self_issued(certificate) => {
            CertificateRefusal::SelfSigned(issuer_name(certificate))
        }
        _ if is_authority(reason) => CertificateRefusal::Other(
            "it is the certificate of an authority, not of a server".to_owned(),
        ),
        CertificateError::UnknownIssuer => CertificateRefusal::Issuer(issuer_name(certificate)),
        CertificateError::BadEncoding => {
            CertificateRefusal::Other("it cannot be parsed".to_owned())
        }
        CertificateError::BadSignature => CertificateRefusal::Other(format!(
            "its signature does not match the key of the trusted issuer '{}'",
            issuer_name(certificate)
        )),
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            CertificateRefusal::Other("its extended key usage does not include servers".to_owned())
        }
        _ if matches!(webpki_error(reason), Some(webpki::Error::UnsupportedCertVersion)) => {
            CertificateRefusal::Other(
                "it has X.509 version 1, but version 3 is required".to_owned(),
            )
        }
        _ => CertificateRefusal::Other(error.to_string()),
    }
}

/// Returns the names in a certificate, or its common name if there are none. The library formats
/// names as `DnsName("a.test")`; the result contains only `a.test`.
fn certificate_names(presented: &[String], certificate: &CertificateDer<'_>) -> Vec<String> {
    let strip_type = |name: &String| {
        let inside = name.split_once('(').map_or(name.as_str(), |(_, inside)| inside);
        inside.trim_end_matches(')').trim_matches('"').to_owned()
    };
    if presented.is_empty() {
        return common_name(certificate).into_iter().collect();
    }
    presented.iter().map(strip_type).collect()
}

impl ServerCertVerifier for KnownCertVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = self
            .authorities
            .verify_server_cert(certificate, intermediates, name, ocsp, now)
            .or_else(|error| self.reconsider(certificate, name, error));
        if let Err(error) = &verdict {
            self.last_refusal.store_refusal(explain_refusal(error, certificate));
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}
