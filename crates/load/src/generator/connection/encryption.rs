//! Encrypts and decrypts the bytes of a connection with TLS.

use super::ByteChannel;
use crate::generator::worker_core::TransportTraffic;
use rustix::io::Errno;
use rustls::{AlertDescription, ClientConnection};
use speedwell_model::load::outcomes::ErrorClass;
use std::io::BufRead;

impl ByteChannel {
    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Whether application data can be exchanged.
    pub fn is_established(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Starts the TLS handshake; the socket must be connected.
    pub fn start_handshake(&mut self, traffic: &mut TransportTraffic) -> Result<(), Errno> {
        self.encrypt_pending();
        self.flush_output(traffic)
    }

    /// Appends pending TLS output to the write buffer.
    pub(super) fn encrypt_pending(&mut self) {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                // Writing to a vector does not fail.
                if tls.write_tls(&mut self.out).is_err() {
                    return;
                }
            }
        }
    }

    /// Decrypts bytes and passes the application data to `on_data`. Returns whether the server has
    /// sent close_notify.
    pub(super) fn decrypt(
        &mut self,
        mut bytes: &[u8],
        traffic: &mut TransportTraffic,
        mut on_data: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, ErrorClass> {
        let Some(tls) = self.tls.as_deref_mut() else {
            return Ok(false);
        };
        let was_established = !tls.is_handshaking();
        let (mut wants_more, mut failure, mut peer_closed) = (true, None, false);
        while !bytes.is_empty() && wants_more && failure.is_none() {
            if tls.read_tls(&mut bytes).is_err() {
                failure = Some(tls_failure_class(was_established));
                break;
            }
            match tls.process_new_packets() {
                Ok(state) => peer_closed = state.peer_has_closed(),
                Err(error) => failure = Some(tls_error_class(&error, was_established)),
            }
            wants_more = deliver_plaintext(tls, &mut on_data);
        }
        self.has_received_close |= peer_closed;
        // If TLS failed, an alert is pending. Send it before the connection is closed, so that the
        // server knows the reason.
        self.encrypt_pending();
        let flushed = self.flush_output(traffic);
        match (failure, flushed) {
            (Some(class), _) => Err(class),
            (None, Err(_)) => Err(ErrorClass::Send),
            (None, Ok(())) => Ok(peer_closed),
        }
    }
}

/// Passes decrypted data to `on_data` until none is left or `on_data` returns false. Returns
/// whether `on_data` accepts more.
fn deliver_plaintext(tls: &mut ClientConnection, mut on_data: impl FnMut(&[u8]) -> bool) -> bool {
    loop {
        let mut reader = tls.reader();
        let Ok(plaintext) = reader.fill_buf() else {
            return true;
        };
        let length = plaintext.len();
        if length == 0 {
            return true;
        }
        let wants_more = on_data(plaintext);
        reader.consume(length);
        if !wants_more {
            return false;
        }
    }
}

/// Error class of a TLS failure during or after the handshake.
fn tls_failure_class(was_established: bool) -> ErrorClass {
    if was_established { ErrorClass::TlsRecord } else { ErrorClass::TlsHandshake }
}

/// Error class of a TLS error. With TLS 1.3, the client completes its side of the handshake before
/// the server checks the client's certificate (RFC 8446, section 4.4.2.4). An alert that rejects
/// this certificate therefore counts as a handshake error even if it arrives later.
fn tls_error_class(error: &rustls::Error, was_established: bool) -> ErrorClass {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            ErrorClass::TlsVerify
        }
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            ErrorClass::TlsAlpn
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => ErrorClass::TlsHandshake,
        _ => tls_failure_class(was_established),
    }
}
