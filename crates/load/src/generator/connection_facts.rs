//! What is remembered of the connection of a request that is looked at closely.

use crate::load::x509::key_bits;
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
