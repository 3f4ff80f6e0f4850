//! Records facts about the connection of a probe, the single request that is sent before a load.

use crate::load::x509::key_bits;
use rustls::{ClientConnection, ProtocolVersion};

/// Negotiated TLS parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// Protocol version, such as `TLSv1.3`.
    pub version: String,
    /// Cipher suite, such as `TLS13_AES_256_GCM_SHA384`; empty with HTTP/3, where it is unknown.
    pub cipher: String,
    /// Size in bits of the key in the server's certificate, for known key types.
    pub key_bits: Option<u32>,
    /// Key exchange group, such as `X25519`.
    pub group: Option<String>,
    /// Protocol selected by ALPN, such as `h2`.
    pub alpn: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFacts {
    pub tls: Option<TlsFacts>,
    pub connect_ns: u64,
}

impl ConnectionFacts {
    /// Response header fields to keep.
    pub const FIELDS: [&'static str; 3] = ["Server", "Content-Type", "Location"];

    pub fn record_connect(&mut self, tls: Option<&ClientConnection>, connect_ns: u64) {
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
            key_bits: tls.peer_certificates().and_then(|chain| key_bits(chain.first()?)),
            group: tls.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name())),
            alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        });
    }

    /// Records a QUIC connection; its cipher and group are unknown. Its TLS version is always 1.3
    /// (RFC 9001, section 4.2).
    #[cfg(feature = "http3")]
    pub fn record_quic_connect(
        &mut self,
        established: &crate::http3::EstablishedConnection,
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
