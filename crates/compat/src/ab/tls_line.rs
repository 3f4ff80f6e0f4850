//! What the report says of TLS, in the words of OpenSSL that the original prints.
//!
//! Start at [`protocol`].

use speedwell_load::generator::TlsFacts;

/// `TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256`: protocol, cipher, bits of the server's key and of the
/// cipher. Bits that are not known are `-`.
pub fn protocol(facts: &TlsFacts) -> String {
    let cipher = cipher(&facts.cipher);
    let or_unknown = |bits: Option<u32>| bits.map_or("-".to_owned(), |bits| bits.to_string());
    format!(
        "{},{cipher},{},{}",
        facts.version,
        or_unknown(facts.key_bits),
        or_unknown(cipher_bits(&cipher))
    )
}

/// `X25519 253 bits`, or only the name where the bits of a group are not known.
pub fn temporary_key(group: &str) -> String {
    // The names and sizes are those that OpenSSL 3 prints for these groups.
    match group.to_ascii_lowercase().as_str() {
        "x25519" => "X25519 253 bits".to_owned(),
        "secp256r1" => "ECDH prime256v1 256 bits".to_owned(),
        "secp384r1" => "ECDH secp384r1 384 bits".to_owned(),
        "secp521r1" => "ECDH secp521r1 521 bits".to_owned(),
        _ => group.to_owned(),
    }
}

/// OpenSSL's name: suites of TLS 1.3 are called as in RFC 8446, appendix B.4, older ones without the
/// underlines.
fn cipher(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let Some((exchange, cipher)) = name
        .strip_prefix("TLS_")
        .and_then(|rest| rest.split_once("_WITH_"))
    else {
        return name.to_owned();
    };
    let cipher = match cipher {
        "CHACHA20_POLY1305_SHA256" => "CHACHA20_POLY1305".to_owned(),
        other => other.replacen("AES_", "AES", 1),
    };
    format!("{exchange}-{cipher}").replace('_', "-")
}

fn cipher_bits(cipher: &str) -> Option<u32> {
    let known = [("AES_128", 128), ("AES128", 128), ("AES_256", 256)];
    let more = [("AES256", 256), ("CHACHA20", 256)];
    let mut all = known.iter().chain(&more);
    all.find(|(name, _)| cipher.contains(name))
        .map(|(_, bits)| *bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_called_as_openssl_calls_them() {
        // From `openssl ciphers -stdname`.
        for (standard, name, bits) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", 256),
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", 128),
            (
                "TLS13_CHACHA20_POLY1305_SHA256",
                "TLS_CHACHA20_POLY1305_SHA256",
                256,
            ),
            (
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "ECDHE-RSA-AES128-GCM-SHA256",
                128,
            ),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
                256,
            ),
        ] {
            let facts = TlsFacts {
                version: "TLSv1.3".to_owned(),
                cipher: standard.to_owned(),
                key_bits: Some(2048),
                group: None,
                alpn: None,
            };
            assert_eq!(protocol(&facts), format!("TLSv1.3,{name},2048,{bits}"));
        }
        assert_eq!(temporary_key("X25519"), "X25519 253 bits");
        assert_eq!(temporary_key("X25519MLKEM768"), "X25519MLKEM768");
    }
}
