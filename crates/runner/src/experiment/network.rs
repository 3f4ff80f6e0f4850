//! A network of its own for the run: another machine as far as ports are concerned, with nothing in it but the
//! loopback device.
//!
//! A server with a fixed port then finds it free, and no other process can answer in its place
//! (network_namespaces(7)). Entering it concerns the whole process, which must still have one thread.

use std::io;

/// Enters a new network and brings up its loopback device. Without the right to do so, a new user namespace gives
/// it where the kernel allows that (user_namespaces(7)).
///
/// # Errors
/// It is not permitted, or the kernel cannot do it.
pub fn enter() -> io::Result<()> {
    // SAFETY: unshare takes flags only; this process has one thread so far.
    let mut status = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if status != 0 {
        // SAFETY: as above.
        status = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) };
    }
    match status {
        0 => raise_loopback(),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `ip link set lo up` without the program (netdevice(7)).
fn raise_loopback() -> io::Result<()> {
    // SAFETY: a plain system call; the descriptor is closed below.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: ifreq is plain data; the name is shorter than its field and ends with zero.
    let status = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let status = libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &request);
        libc::close(socket);
        status
    };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
