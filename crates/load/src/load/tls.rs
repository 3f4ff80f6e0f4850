//! Describes the TLS options of a load and builds the TLS configuration: trusted certificates,
//! client identity and offered protocols. Also verifies server certificates and explains
//! rejections. Start at [`TlsOptions::client_config`].

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
        let known = KnownCertificates::load(&self.trust, provider.clone())?;
        let algorithms = provider.signature_verification_algorithms;
        let verifier =
            Arc::new(CertVerifier { known, algorithms, last_refusal: last_refusal.clone() });
        let with_verifier = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => with_verifier.with_no_client_auth(),
            Some(identity) => with_verifier.with_client_auth_cert(
                read_certificates(&identity.certificates)?,
                PrivateKeyDer::from_pem_file(&identity.key)
                    .map_err(|error| file_error(&identity.key, error))?,
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

// The code below verifies server certificates and explains rejections. If the user names a file,
// both the authorities and the server certificates in it are trusted, as in curl. Start at
// [`CertVerifier`].

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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateRefusal {
    /// The certificate expired this long ago.
    #[error("it expired {} ago", format_duration(.0))]
    Expired(Duration),
    /// The certificate becomes valid only after this much time.
    #[error("it becomes valid in {}; check the clock", format_duration(.0))]
    NotYetValid(Duration),
    /// The certificate was issued for other names.
    #[error("{}", describe_names(.presented, .wanted))]
    Name {
        /// Name of the server.
        wanted: String,
        /// Names in the certificate.
        presented: Vec<String>,
    },
    /// The certificate, with this common name, is self-signed and not trusted.
    #[error("it is self-signed ('{0}') and not trusted")]
    SelfSigned(String),
    /// The issuer of the certificate, with this common name, is not trusted.
    #[error("its issuer '{0}' is not trusted")]
    Issuer(String),
    /// Another reason, as reported by the TLS library.
    #[error("{0}")]
    Other(String),
}

/// Describes the names in a certificate that does not name the server.
fn describe_names(presented: &[String], wanted: &str) -> String {
    if presented.is_empty() {
        return format!("it contains no name, but '{wanted}' was expected");
    }
    let names: Vec<String> = presented.iter().map(|name| format!("'{name}'")).collect();
    format!("it is for {}, not for '{wanted}'", names.join(", "))
}

/// Formats a duration in its largest unit, rounded down.
fn format_duration(time: &Duration) -> String {
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

/// Verifies that the peer has the private key of its certificate, and accepts known certificates,
/// or any certificate.
#[derive(Debug)]
struct CertVerifier {
    /// The certificates to accept; `None` accepts any certificate.
    known: Option<KnownCertificates>,
    algorithms: WebPkiSupportedAlgorithms,
    last_refusal: Arc<LastRefusal>,
}

/// The certificates that a trusted authority has signed, and trusted certificates themselves.
#[derive(Debug)]
struct KnownCertificates {
    authorities: Arc<WebPkiServerVerifier>,
    /// Certificates that are trusted without an authority.
    accepted: Vec<CertificateDer<'static>>,
    /// Whether to use the common name if a certificate has no alternative names.
    takes_common_name: bool,
}

impl KnownCertificates {
    /// Loads the certificates to accept; `None` accepts any certificate.
    fn load(
        trust: &TrustSource,
        provider: Arc<CryptoProvider>,
    ) -> Result<Option<KnownCertificates>, TlsError> {
        let mut roots = RootCertStore::empty();
        let accepted = match trust {
            TrustSource::Anyone => return Ok(None),
            TrustSource::Authority(file) => {
                let trusted = read_certificates(file)?;
                trusted.iter().try_for_each(|certificate| roots.add(certificate.clone()))?;
                trusted
            }
            TrustSource::System => {
                let native = rustls_native_certs::load_native_certs();
                let (added, _) = roots.add_parsable_certificates(native.certs.iter().cloned());
                if added == 0 {
                    let error = native.errors.first().map(ToString::to_string);
                    return Err(TlsError::System(error.unwrap_or_else(|| "none found".into())));
                }
                native.certs
            }
        };
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let authorities =
            builder.build().map_err(|error| rustls::Error::General(error.to_string()))?;
        let takes_common_name = matches!(trust, TrustSource::Authority(_));
        Ok(Some(KnownCertificates { authorities, accepted, takes_common_name }))
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
    let other = |text: &str| CertificateRefusal::Other(text.to_owned());
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
        _ if is_authority(reason) => {
            other("it is the certificate of an authority, not of a server")
        }
        CertificateError::UnknownIssuer => CertificateRefusal::Issuer(issuer_name(certificate)),
        CertificateError::BadEncoding => other("it cannot be parsed"),
        CertificateError::BadSignature => CertificateRefusal::Other(format!(
            "its signature does not match the key of the trusted issuer '{}'",
            issuer_name(certificate)
        )),
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            other("its extended key usage does not include servers")
        }
        _ if matches!(webpki_error(reason), Some(webpki::Error::UnsupportedCertVersion)) => {
            other("it has X.509 version 1, but version 3 is required")
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

impl ServerCertVerifier for CertVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(known) = &self.known else {
            return Ok(ServerCertVerified::assertion());
        };
        let verdict = known
            .authorities
            .verify_server_cert(certificate, intermediates, name, ocsp, now)
            .or_else(|error| known.reconsider(certificate, name, error));
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
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

// The code below extracts the certificate fields shown in reports and messages: key size, common
// name and issuer. It parses a certificate only up to its key (RFC 5280, section 4.1, in the
// encoding of X.690), and does not decide about trust.

/// ASN.1 tags (X.690).
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// Tag of the optional version field.
const VERSION: u8 = 0xa0;

const SET: u8 = 0x31;

/// Object identifier of the common name (2.5.4.3).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Key sizes in bits, by object identifier of the algorithm or curve (RFC 5480, RFC 8410; Ed25519
/// as reported by OpenSSL).
const FIXED_KEY_SIZES: [(&[u8], u32); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 256),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], 384),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], 521),
    (&[0x2b, 0x65, 0x70], 253),
];

/// The parsed fields of a certificate, in DER.
struct CertificateFields<'c> {
    issuer: &'c [u8],
    subject: &'c [u8],
    key: &'c [u8],
}

/// Returns the size in bits of the key of a DER certificate; `None` for unknown key types.
pub(crate) fn key_bits(certificate: &[u8]) -> Option<u32> {
    let (SEQUENCE, algorithm, behind) = parse_element(parse_fields(certificate)?.key)? else {
        return None;
    };
    let bits = element_content(BIT_STRING, behind)?;
    fixed_key_bits(algorithm).or_else(|| modulus_bits(bits))
}

fn common_name(certificate: &[u8]) -> Option<String> {
    common_name_of(parse_fields(certificate)?.subject)
}

/// Returns the issuer's common name, or an empty string.
fn issuer_name(certificate: &[u8]) -> String {
    let issuer = parse_fields(certificate).map(|fields| fields.issuer);
    issuer.and_then(common_name_of).unwrap_or_default()
}

/// Whether the certificate names itself as its issuer.
fn is_self_issued(certificate: &[u8]) -> bool {
    parse_fields(certificate).is_some_and(|fields| fields.issuer == fields.subject)
}

fn parse_fields(certificate: &[u8]) -> Option<CertificateFields<'_>> {
    let certificate = element_content(SEQUENCE, certificate)?;
    let mut rest = element_content(SEQUENCE, certificate)?;
    if let (VERSION, _, behind) = parse_element(rest)? {
        rest = behind;
    }
    // The next fields are serial number, signature, issuer, validity, subject and key.
    let mut next = || {
        let (_, content, behind) = parse_element(rest)?;
        rest = behind;
        Some(content)
    };
    let (_serial, _signature, issuer) = (next()?, next()?, next()?);
    let (_validity, subject, key) = (next()?, next()?, next()?);
    Some(CertificateFields { issuer, subject, key })
}

/// Returns the common name in a subject or issuer. Both are lists of sets of pairs (RFC 5280,
/// section 4.1.2.4). Of several common names, the last is the most specific.
fn common_name_of(mut name: &[u8]) -> Option<String> {
    let mut found = None;
    while let Some((SET, mut pairs, behind)) = parse_element(name) {
        name = behind;
        while let Some((SEQUENCE, pair, behind)) = parse_element(pairs) {
            pairs = behind;
            if let Some((OBJECT, COMMON_NAME, value)) = parse_element(pair) {
                found = parse_element(value)
                    .map(|(_, text, _)| String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    found
}

/// Returns the content of the first element if it has this tag.
fn element_content(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    parse_element(bytes).filter(|(found, _, _)| *found == tag).map(|(_, content, _)| content)
}

/// Returns the key size implied by the algorithm or, for elliptic curves, by its parameter.
fn fixed_key_bits(mut algorithm: &[u8]) -> Option<u32> {
    while let Some((tag, content, rest)) = parse_element(algorithm) {
        let known = FIXED_KEY_SIZES.iter().find(|(name, _)| *name == content);
        if let Some((_, bits)) = known.filter(|_| tag == OBJECT) {
            return Some(*bits);
        }
        algorithm = rest;
    }
    None
}

/// Returns the size of an RSA modulus, the first integer of the key (RFC 8017, appendix A.1.1).
fn modulus_bits(bits: &[u8]) -> Option<u32> {
    // A bit string starts with the number of unused bits in its last byte. Here, this number is 0.
    let key = element_content(SEQUENCE, bits.strip_prefix(&[0])?)?;
    let modulus = element_content(INTEGER, key)?;
    let first = modulus.iter().position(|byte| *byte != 0)?;
    let bits = (modulus.len() - first) * 8 - modulus[first].leading_zeros() as usize;
    u32::try_from(bits).ok()
}

/// Parses the first element: returns its tag, its content and the remaining bytes.
fn parse_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            (length, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Makes a certificate with openssl, as DER; `None` if that fails.
    fn make_certificate(kind: &[&str]) -> Option<Vec<u8>> {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-subj", "/CN=x", "-outform", "DER"])
            .args(["-keyout", "/dev/null", "-newkey"])
            .args(kind)
            .stderr(Stdio::null())
            .output();
        made.ok().filter(|made| made.status.success()).map(|made| made.stdout)
    }

    #[test]
    fn key_sizes_and_names_match_the_certificates_made_by_openssl() {
        for (kind, bits) in [
            (&["rsa:2048"][..], 2048),
            (&["rsa:3072"], 3072),
            (&["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], 256),
            (&["ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"], 384),
            (&["ed25519"], 253),
        ] {
            let Some(certificate) = make_certificate(kind) else {
                eprintln!("skipped: openssl cannot make a certificate with {kind:?}");
                continue;
            };
            assert_eq!(key_bits(&certificate), Some(bits), "{kind:?}");
            assert_eq!(common_name(&certificate).as_deref(), Some("x"), "{kind:?}");
            assert_eq!(issuer_name(&certificate), "x");
            assert!(is_self_issued(&certificate));
            for end in 0..certificate.len() {
                key_bits(&certificate[..end]);
                common_name(&certificate[..end]);
            }
            // Corrupt each byte in turn: parsing must not read past the end.
            for at in 0..certificate.len() {
                let mut broken = certificate.clone();
                broken[at] ^= 0xff;
                key_bits(&broken);
                common_name(&broken);
            }
        }
        assert_eq!(key_bits(b""), None);
        assert_eq!(key_bits(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
