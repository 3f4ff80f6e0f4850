//! Reads the fields of a certificate that a report or a message shows: the size of its key, its common name, its issuer.
//!
//! A certificate is read only up to its key (RFC 5280, section 4.1, in the encoding of X.690). Whether it may be
//! trusted is decided in `trust.rs`.

/// Tags of X.690.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The version of a certificate, which may be absent.
const VERSION: u8 = 0xa0;

const SET: u8 = 0x31;

/// The object identifier of a common name (2.5.4.3).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Algorithms and curves by their object identifiers, and the bits of their keys (RFC 5480, RFC 8410;
/// those of Ed25519 are as OpenSSL counts them).
const FIXED: [(&[u8], u32); 4] = [
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 256),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], 384),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], 521),
    (&[0x2b, 0x65, 0x70], 253),
];

/// The fields of a certificate that are read, as DER.
struct Fields<'c> {
    issuer: &'c [u8],
    subject: &'c [u8],
    key: &'c [u8],
}

/// The bits of the key in a certificate (DER); `None` for kinds of keys that are not known.
pub(crate) fn key_bits(certificate: &[u8]) -> Option<u32> {
    let (SEQUENCE, algorithm, behind) = element(fields(certificate)?.key)? else {
        return None;
    };
    let (BIT_STRING, bits, _) = element(behind)? else {
        return None;
    };
    fixed(algorithm).or_else(|| modulus_bits(bits))
}

/// The common name of the subject, if it has one.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    common_name_of(fields(certificate)?.subject)
}

/// The common name of the issuer; empty if it has none.
pub(super) fn issuer_name(certificate: &[u8]) -> String {
    let issuer = fields(certificate).map(|fields| fields.issuer);
    issuer.and_then(common_name_of).unwrap_or_default()
}

/// Whether the certificate names itself as its issuer.
pub(super) fn is_self_issued(certificate: &[u8]) -> bool {
    fields(certificate).is_some_and(|fields| fields.issuer == fields.subject)
}

fn fields(certificate: &[u8]) -> Option<Fields<'_>> {
    let certificate = content(SEQUENCE, certificate)?;
    let mut rest = content(SEQUENCE, certificate)?;
    if let (VERSION, _, behind) = element(rest)? {
        rest = behind;
    }
    // Serial number, signature, issuer, validity, subject, key.
    let mut next = || {
        let (_, content, behind) = element(rest)?;
        rest = behind;
        Some(content)
    };
    let (_serial, _signature, issuer) = (next()?, next()?, next()?);
    let (_validity, subject, key) = (next()?, next()?, next()?);
    Some(Fields {
        issuer,
        subject,
        key,
    })
}

/// A name is a list of sets of pairs (RFC 5280, section 4.1.2.4). The last common name is the most specific one.
fn common_name_of(mut name: &[u8]) -> Option<String> {
    let mut found = None;
    while let Some((SET, mut pairs, behind)) = element(name) {
        name = behind;
        while let Some((SEQUENCE, pair, behind)) = element(pairs) {
            pairs = behind;
            if let Some((OBJECT, COMMON_NAME, value)) = element(pair) {
                found =
                    element(value).map(|(_, text, _)| String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    found
}

/// The content of the first element, if it has this tag.
fn content(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    element(bytes)
        .filter(|(found, _, _)| *found == tag)
        .map(|(_, content, _)| content)
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
            assert_eq!(common_name(&certificate).as_deref(), Some("x"), "{kind:?}");
            assert_eq!(issuer_name(&certificate), "x");
            assert!(is_self_issued(&certificate));
            for end in 0..certificate.len() {
                key_bits(&certificate[..end]);
                common_name(&certificate[..end]);
            }
            // Every byte wrong once: nothing is read beyond the end.
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
