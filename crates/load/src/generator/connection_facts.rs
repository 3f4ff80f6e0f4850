//! What is remembered of the connection of a request that is looked at closely.

use rustls::{ClientConnection, ProtocolVersion};

/// What was agreed with TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// The version, such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`; empty with HTTP/3, where it is not known.
    pub cipher: String,
    /// Bits of the key in the server's certificate, where its kind is known.
    pub key_bits: Option<u32>,
    /// The group of the key exchange, such as `X25519`.
    pub group: Option<String>,
    /// What ALPN agreed on, such as `h2`.
    pub alpn: Option<String>,
}

/// A connection that was made.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFacts {
    pub tls: Option<TlsFacts>,
    pub connect_ns: u64,
}

impl ConnectionFacts {
    /// The header fields of an answer that are kept.
    pub const FIELDS: [&'static str; 3] = ["Server", "Content-Type", "Location"];

    pub fn connected(&mut self, tls: Option<&ClientConnection>, connect_ns: u64) {
        self.connect_ns = connect_ns;
        self.tls = tls.map(|tls| TlsFacts {
            version: match tls.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3".to_owned(),
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2".to_owned(),
                other => format!("{other:?}"),
            },
            cipher: tls
                .negotiated_cipher_suite()
                .map_or(String::new(), |suite| format!("{:?}", suite.suite())),
            key_bits: tls
                .peer_certificates()
                .and_then(|chain| key_bits(chain.first()?)),
            group: tls
                .negotiated_key_exchange_group()
                .map(|group| format!("{:?}", group.name())),
            alpn: tls
                .alpn_protocol()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
        });
    }

    /// A QUIC connection, of which neither cipher nor group is known. Its TLS is always 1.3 (RFC 9001,
    /// section 4.2).
    #[cfg(feature = "http3")]
    pub fn connected_by_quic(
        &mut self,
        established: &speedwell_load_h3::Established,
        connect_ns: u64,
    ) {
        self.connect_ns = connect_ns;
        self.tls = Some(TlsFacts {
            version: "TLSv1.3".to_owned(),
            cipher: String::new(),
            key_bits: established.certificate.as_deref().and_then(key_bits),
            group: None,
            alpn: Some(String::from_utf8_lossy(&established.alpn).into_owned()),
        });
    }
}

// How many bits the key of a certificate has, as far as a report shows it. A certificate is read only
// up to its key (RFC 5280, section 4.1, in the encoding of X.690). Whether it may be trusted is not
// decided here.

/// Tags of X.690.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The version of a certificate, which may be absent.
const VERSION: u8 = 0xa0;

/// Fields between the version and the key: serial number, signature, issuer, validity, subject.
const FIELDS_BEFORE_KEY: usize = 5;

/// Algorithms and curves by their object identifiers, and the bits of their keys (RFC 5480, RFC 8410;
/// those of Ed25519 are as OpenSSL counts them).
const FIXED: [(&[u8], u32); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 256),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], 384),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], 521),
    (&[0x2b, 0x65, 0x70], 253),
];

/// The bits of the key in a certificate (DER); `None` for kinds of keys that are not known.
pub(super) fn key_bits(certificate: &[u8]) -> Option<u32> {
    let (SEQUENCE, certificate, _) = element(certificate)? else {
        return None;
    };
    let (SEQUENCE, mut rest, _) = element(certificate)? else {
        return None;
    };
    if let (VERSION, _, behind) = element(rest)? {
        rest = behind;
    }
    for _ in 0..FIELDS_BEFORE_KEY {
        (_, _, rest) = element(rest)?;
    }
    let (SEQUENCE, key, _) = element(rest)? else {
        return None;
    };
    let (SEQUENCE, algorithm, behind) = element(key)? else {
        return None;
    };
    let (BIT_STRING, bits, _) = element(behind)? else {
        return None;
    };
    fixed(algorithm).or_else(|| modulus_bits(bits))
}

/// The bits that follow from the algorithm or, with elliptic curves, from its parameter.
fn fixed(mut algorithm: &[u8]) -> Option<u32> {
    while let Some((tag, content, rest)) = element(algorithm) {
        let known = FIXED.iter().find(|(name, _)| *name == content);
        if let Some((_, bits)) = known.filter(|_| tag == OBJECT) {
            return Some(*bits);
        }
        algorithm = rest;
    }
    None
}

/// The modulus of RSA (RFC 8017, appendix A.1.1) is the first number of the key.
fn modulus_bits(bits: &[u8]) -> Option<u32> {
    // A bit string begins with the number of bits that its last byte lacks: none here.
    let (SEQUENCE, key, _) = element(bits.strip_prefix(&[0])?)? else {
        return None;
    };
    let (INTEGER, modulus, _) = element(key)? else {
        return None;
    };
    let first = modulus.iter().position(|byte| *byte != 0)?;
    let bits = (modulus.len() - first) * 8 - modulus[first].leading_zeros() as usize;
    u32::try_from(bits).ok()
}

/// The first element: its tag, its content, and what stands behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            if digits.is_empty() || digits.len() > 4 {
                return None;
            }
            let digits = digits.iter();
            let length = digits.fold(0, |length, digit| length << 8 | usize::from(*digit));
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

    /// A certificate made by openssl, as DER; `None` where it cannot.
    fn made(kind: &[&str]) -> Option<Vec<u8>> {
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-nodes", "-subj", "/CN=x", "-outform", "DER",
            ])
            .args(["-keyout", "/dev/null", "-newkey"])
            .args(kind)
            .stderr(Stdio::null())
            .output();
        made.ok()
            .filter(|made| made.status.success())
            .map(|made| made.stdout)
    }

    #[test]
    fn the_bits_are_those_that_openssl_was_asked_for() {
        for (kind, bits) in [
            (&["rsa:2048"][..], 2048),
            (&["rsa:3072"], 3072),
            (&["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], 256),
            (&["ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"], 384),
            (&["ed25519"], 253),
        ] {
            let Some(certificate) = made(kind) else {
                eprintln!("skipped: openssl makes no certificate with {kind:?}");
                continue;
            };
            assert_eq!(key_bits(&certificate), Some(bits), "{kind:?}");
            for end in 0..certificate.len() {
                key_bits(&certificate[..end]);
            }
            // Every byte wrong once: nothing is read beyond the end.
            for at in 0..certificate.len() {
                let mut broken = certificate.clone();
                broken[at] ^= 0xff;
                key_bits(&broken);
            }
        }
        assert_eq!(key_bits(b""), None);
        assert_eq!(key_bits(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
