//! Extracts the certificate fields shown in reports and messages: key size, common name and issuer.
//!
//! Parses a certificate only up to its key (RFC 5280, section 4.1, in the encoding of X.690). Trust
//! is decided in `trust.rs`.

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
    let (BIT_STRING, bits, _) = parse_element(behind)? else {
        return None;
    };
    fixed_key_bits(algorithm).or_else(|| modulus_bits(bits))
}

pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    common_name_of(parse_fields(certificate)?.subject)
}

/// Returns the issuer's common name, or an empty string.
pub(super) fn issuer_name(certificate: &[u8]) -> String {
    let issuer = parse_fields(certificate).map(|fields| fields.issuer);
    issuer.and_then(common_name_of).unwrap_or_default()
}

/// Whether the certificate names itself as its issuer.
pub(super) fn is_self_issued(certificate: &[u8]) -> bool {
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
    let (SEQUENCE, key, _) = parse_element(bits.strip_prefix(&[0])?)? else {
        return None;
    };
    let (INTEGER, modulus, _) = parse_element(key)? else {
        return None;
    };
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
