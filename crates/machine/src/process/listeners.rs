//! Finds out which processes listen on an address: asks the kernel or, if that fails, reads the
//! kernel's tables (proc_pid_net(5)).
//!
//! Start at [`sockets_at`], then [`holders_of`].

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::{fs, io};

/// State of a listening socket in /proc/net/tcp (include/net/tcp_states.h).
const TCP_LISTEN: &str = "0A";

/// Flag of a listening socket in /proc/net/unix (include/uapi/linux/net.h, `__SO_ACCEPTCON`).
const UNIX_LISTEN_FLAG: u32 = 1 << 16;

/// Returns inodes of the listening sockets that connections to `address` can reach. These sockets
/// are bound to `address`, or to every address of the machine.
pub fn sockets_at(address: SocketAddr) -> BTreeSet<u64> {
    let port = address.port();
    let listening = query_listening(port).unwrap_or_else(|_| sockets_in_tables(port));
    let reached =
        listening.into_iter().filter(|(bound, _)| receives_connections(*bound, address.ip()));
    reached.map(|(_, inode)| inode).collect()
}

/// Returns inodes of the listening sockets bound to `path`.
pub fn sockets_at_path(path: &Path) -> BTreeSet<u64> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let wanted_path = path.to_string_lossy();
    text.lines()
        .filter_map(|line| {
            // The fields are: Num RefCount Protocol Flags Type St Inode Path. A path may contain
            // spaces.
            let flags = line.split_whitespace().nth(3)?;
            let flags = u32::from_str_radix(flags, 16).ok()?;
            let (inode, bound_path) = inode_and_path(line)?;
            (flags & UNIX_LISTEN_FLAG != 0 && bound_path == wanted_path).then_some(inode)
        })
        .collect()
}

/// Parses the inode and path in a line of /proc/net/unix. Spaces pad the inode.
fn inode_and_path(line: &str) -> Option<(u64, &str)> {
    let mut unparsed = line;
    for _ in 0..6 {
        unparsed = unparsed.trim_start().split_once(' ')?.1;
    }
    let (inode, path) = unparsed.trim_start().split_once(' ')?;
    Some((inode.parse().ok()?, path))
}

/// Returns the processes in `among` that have one of the sockets open.
pub fn holders_of(sockets: &BTreeSet<u64>, among: impl IntoIterator<Item = i32>) -> Vec<i32> {
    let holds = |pid: &i32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        entries.into_iter().flatten().flatten().any(|entry| {
            let link = fs::read_link(entry.path());
            link.is_ok_and(|link| {
                socket_inode(&link.to_string_lossy()).is_some_and(|inode| sockets.contains(&inode))
            })
        })
    };
    among.into_iter().filter(holds).collect()
}

/// Returns every process that has one of the sockets open, except processes that we are not
/// permitted to inspect.
pub fn all_holders_of(sockets: &BTreeSet<u64>) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    holders_of(sockets, pids)
}

fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the bound address and inode of each socket listening on the port.
fn sockets_in_tables(port: u16) -> Vec<(IpAddr, u64)> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let parse_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, local_port) = fields.get(1)?.split_once(':')?;
        let is_listening =
            u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == TCP_LISTEN;
        is_listening.then(|| Some((parse_table_address(address)?, fields.get(9)?.parse().ok()?)))?
    };
    texts.flat_map(|text| text.lines().skip(1).filter_map(parse_line).collect::<Vec<_>>()).collect()
}

/// Whether a socket bound to `bound` receives connections to `wanted`. A socket bound to all IPv6
/// addresses also receives IPv4, unless IPV6_V6ONLY is set. The table does not show this option.
fn receives_connections(bound: IpAddr, wanted: IpAddr) -> bool {
    match bound {
        IpAddr::V6(bound) if bound.is_unspecified() => true,
        IpAddr::V4(bound) if bound.is_unspecified() => wanted.to_canonical().is_ipv4(),
        bound => bound.to_canonical() == wanted.to_canonical(),
    }
}

/// Parses an address as the tables in /proc/net show it: hexadecimal 32-bit words in native byte
/// order.
fn parse_table_address(text: &str) -> Option<IpAddr> {
    let bytes_of_word = |index: usize| {
        let digits = text.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(bytes_of_word(0)?))),
        32 => {
            let words = [0, 1, 2, 3].map(bytes_of_word);
            let words = [words[0]?, words[1]?, words[2]?, words[3]?];
            Some(IpAddr::V6(<[u8; 16]>::try_from(words.as_flattened()).ok()?.into()))
        }
        _ => None,
    }
}

// Asks the kernel which TCP sockets listen on a port (sock_diag(7)). The files /proc/net/tcp and
// tcp6 have the same information, but reading them takes milliseconds. During that time, a starting
// server may have to wait for a processor. The files list every connection, and the kernel's hash
// table behind them grows with the machine's memory.

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
fn query_listening(port: u16) -> io::Result<Vec<(IpAddr, u64)>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listening_socket_is_found_with_its_process() {
        let own_pid = std::process::id() as i32;
        for bind in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(bind) else {
                eprintln!("skipped: cannot listen on {bind}");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let sockets = sockets_at(SocketAddr::from(([127, 0, 0, 1], port)));
            assert_eq!(sockets.len(), 1, "{bind}");
            assert!(all_holders_of(&sockets).contains(&own_pid), "{bind}");
            assert!(holders_of(&sockets, [1]).is_empty(), "{bind}");
            drop(listener);
            // Another test may be starting a child, which holds a copy of the descriptor until
            // exec.
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let is_gone = (0..3_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                sockets_at(address).is_empty()
            });
            assert!(is_gone, "{bind}");
        }
    }

    #[test]
    fn proc_tables_list_the_same_sockets_as_a_kernel_query() {
        for bind in ["127.0.0.1:0", "127.0.0.9:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(bind) else {
                eprintln!("skipped: cannot listen on {bind}");
                continue;
            };
            let address = listener.local_addr().unwrap();
            let bound_to_address = |mut sockets: Vec<(IpAddr, u64)>| {
                sockets.retain(|(bound, _)| *bound == address.ip());
                sockets
            };
            let in_tables = bound_to_address(sockets_in_tables(address.port()));
            assert_eq!(in_tables.len(), 1, "{bind}");
            match query_listening(address.port()) {
                Ok(queried) => assert_eq!(bound_to_address(queried), in_tables, "{bind}"),
                Err(error) => eprintln!("skipped: the kernel does not answer: {error}"),
            }
        }
    }

    #[test]
    fn a_socket_of_another_address_is_not_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(sockets_at(SocketAddr::from(([127, 0, 0, 9], port))).is_empty());
    }

    #[test]
    fn a_unix_socket_is_found_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let sockets = sockets_at_path(&path);
        assert_eq!(sockets.len(), 1);
        assert!(all_holders_of(&sockets).contains(&(std::process::id() as i32)));
        assert!(sockets_at_path(&folder.path().join("another")).is_empty());
    }
}
