//! Asks the kernel which TCP sockets listen on a port (sock_diag(7)).
//!
//! The files /proc/net/tcp and tcp6 have the same information, but reading them takes milliseconds.
//! During that time, a starting server may have to wait for a processor. The files list every
//! connection, and the kernel's hash table behind them grows with the machine's memory.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

// Message constants (include/uapi/linux/netlink.h and sock_diag.h).
const REQUEST_DUMP: u16 = 0x0301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const BY_FAMILY: u16 = 20;
const HEADER_LENGTH: usize = 16;

// Request and response constants (include/uapi/linux/inet_diag.h).
const REQUEST_LENGTH: usize = 56;
const ENTRY_LENGTH: usize = 72;
const TCP: u8 = 6;
const LISTEN_STATE_MASK: u32 = 1 << 10;

/// Maximum size of one response.
const MAX_RESPONSE_BYTES: usize = 32 << 10;

/// Returns the bound address and inode of each socket listening on the port.
///
/// # Errors
/// Fails if the kernel does not support such queries, or denies them.
pub(super) fn query_listening(port: u16) -> io::Result<Vec<(IpAddr, u64)>> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut sockets = Vec::new();
    let mut buffer = vec![0; MAX_RESPONSE_BYTES];
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        send(&kernel, &build_request(family, port), SendFlags::empty())?;
        loop {
            let (_, length) = recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
            if parse_response(&buffer[..length.min(MAX_RESPONSE_BYTES)], &mut sockets)? {
                break;
            }
        }
    }
    Ok(sockets)
}

fn build_request(family: AddressFamily, port: u16) -> Vec<u8> {
    let length = (HEADER_LENGTH + REQUEST_LENGTH) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_DUMP.to_ne_bytes());
    // The sequence number and port id are unused, because this socket has no other user.
    message.extend([0; 8]);
    message.extend([family.as_raw() as u8, TCP, 0, 0]);
    message.extend(LISTEN_STATE_MASK.to_ne_bytes());
    message.extend(port.to_be_bytes());
    message.resize(HEADER_LENGTH + REQUEST_LENGTH, 0);
    message
}

/// Extracts the sockets from one response. Returns whether the response was the last.
fn parse_response(mut messages: &[u8], sockets: &mut Vec<(IpAddr, u64)>) -> io::Result<bool> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    while !messages.is_empty() {
        let length = read_u32(messages, 0).ok_or_else(malformed)? as usize;
        let kind = messages.get(4..6).ok_or_else(malformed)?;
        let body = messages.get(HEADER_LENGTH..length).ok_or_else(malformed)?;
        match u16::from_ne_bytes([kind[0], kind[1]]) {
            DONE | ERROR => {
                let error = read_u32(body, 0).map_or(0, |error| error as i32);
                return match error {
                    0 => Ok(true),
                    error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
                };
            }
            _ => sockets.push(parse_socket(body).ok_or_else(malformed)?),
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Parses the address and inode of one entry.
fn parse_socket(entry: &[u8]) -> Option<(IpAddr, u64)> {
    let address: [u8; 16] = entry.get(8..24)?.try_into().ok()?;
    let address = match AddressFamily::from_raw(u16::from(*entry.first()?)) {
        AddressFamily::INET => Ipv4Addr::from(*address.first_chunk()?).into(),
        _ => Ipv6Addr::from(address).into(),
    };
    Some((address, u64::from(read_u32(entry, ENTRY_LENGTH - 4)?)))
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(field.try_into().ok()?))
}
