//! Sends and receives the bytes of a connection, with or without TLS. Data that the socket does not
//! accept at once is buffered.

use crate::generator::recorder::ConnectionLoss;
use crate::generator::worker_core::{TlsParameters, TransportTraffic};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustls::{AlertDescription, ClientConnection};
use speedwell_model::load::outcomes::ErrorClass;
use std::io::{BufRead, Write};

/// A socket that is connected or connecting.
pub(crate) struct ByteChannel {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// Whether the server has sent close_notify.
    has_received_close: bool,
    /// Bytes to write, starting at `out_at`. The buffer is reused for later connections.
    out: Vec<u8>,
    out_at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// Data was read and more may follow.
    More,
    /// No data is left for now.
    Drained,
    /// The connection has ended: the peer has finished sending or aborted it, or TLS failed.
    Lost(ConnectionLoss),
}

impl ByteChannel {
    pub fn new(
        socket: OwnedFd,
        tls: Option<&TlsParameters>,
        out: Vec<u8>,
    ) -> Result<ByteChannel, ErrorClass> {
        let connect = |tls: &TlsParameters| {
            ClientConnection::new(tls.config.clone(), tls.name.clone()).map(Box::new)
        };
        let tls = tls.map(connect).transpose().map_err(|_| ErrorClass::TlsHandshake)?;
        Ok(ByteChannel { socket, tls, has_received_close: false, out, out_at: 0 })
    }

    /// Returns whether connecting succeeded. Call this once the socket is readable or writable.
    pub fn finish_connecting(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.socket)?
    }

    /// Sends application data, or buffers it until the socket is writable.
    pub fn send(&mut self, bytes: &[u8], traffic: &mut TransportTraffic) -> Result<(), Errno> {
        if let Some(tls) = &mut self.tls {
            // The writer accepts everything: its buffer is unlimited.
            tls.writer().write_all(bytes).map_err(|_| Errno::PIPE)?;
            self.encrypt_pending();
            return self.flush_output(traffic);
        }
        if self.out.len() > self.out_at {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        traffic.calls += 1;
        let written = transmit_bytes(&self.socket, bytes)?;
        traffic.sent += written as u64;
        if written < bytes.len() {
            self.out.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    /// Whether buffered bytes wait for the socket.
    pub fn is_waiting(&self) -> bool {
        self.out.len() > self.out_at
    }

    /// Writes buffered bytes as far as the socket accepts them.
    pub fn flush_output(&mut self, traffic: &mut TransportTraffic) -> Result<(), Errno> {
        while self.is_waiting() {
            traffic.calls += 1;
            let written = transmit_bytes(&self.socket, &self.out[self.out_at..])?;
            if written == 0 {
                return Ok(());
            }
            traffic.sent += written as u64;
            self.out_at += written;
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    /// Reads once into `buffer` and passes any application data to `on_data`.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        traffic: &mut TransportTraffic,
        mut on_data: impl FnMut(&[u8]) -> bool,
    ) -> ReadResult {
        traffic.calls += 1;
        let read = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) if self.tls.is_some() && !self.has_received_close => {
                return ReadResult::Lost(ConnectionLoss::Truncated);
            }
            Ok((0, _)) => return ReadResult::Lost(ConnectionLoss::End),
            Ok((read, _)) => read,
            Err(Errno::AGAIN | Errno::INTR) => return ReadResult::Drained,
            Err(_) => return ReadResult::Lost(ConnectionLoss::Reset),
        };
        traffic.received += read as u64;
        // A read that does not fill the buffer has drained the socket. Another read would find
        // nothing.
        let state = if read < buffer.len() { ReadResult::Drained } else { ReadResult::More };
        if self.tls.is_none() {
            on_data(&buffer[..read]);
            return state;
        }
        match self.decrypt(&buffer[..read], traffic, on_data) {
            Ok(false) => state,
            // The server has sent close_notify (RFC 8446, section 6.1). It may wait for our
            // close_notify before it closes the socket, so do not wait for the end of the stream.
            Ok(true) => ReadResult::Lost(ConnectionLoss::End),
            Err(class) => ReadResult::Lost(ConnectionLoss::Failed(class)),
        }
    }

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
    fn encrypt_pending(&mut self) {
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
    fn decrypt(
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

    /// Closes the connection and returns the buffer for reuse.
    pub fn into_buffer(mut self) -> Vec<u8> {
        self.out.clear();
        std::mem::take(&mut self.out)
    }
}

/// Writes as much as the socket accepts, possibly 0 bytes.
fn transmit_bytes(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => other,
    }
}

/// Passes decrypted data to `on_data` until none is left or `on_data` returns false. Returns
/// whether `on_data` accepts more.
fn deliver_plaintext(tls: &mut ClientConnection, mut on_data: impl FnMut(&[u8]) -> bool) -> bool {
    loop {
        let mut reader = tls.reader();
        let plaintext = reader.fill_buf().unwrap_or_default();
        if plaintext.is_empty() {
            return true;
        }
        let (length, wants_more) = (plaintext.len(), on_data(plaintext));
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
