//! Isolates a run. Gives its target and its load separate processors, and a network namespace with
//! only a loopback device.
//!
//! In such a namespace, a fixed port is free, and no other process can answer for the server
//! (network_namespaces(7)). Entering the namespace affects the whole process, which must still have
//! a single thread.

use super::RunReport;
use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use speedwell_machine::process::CpuSet;
use speedwell_model::assignment::ProcessorShares;
use std::io;

/// Enters a new network namespace and brings up its loopback device. A process without the
/// privilege to do so first enters a new user namespace, if the kernel allows that
/// (user_namespaces(7)).
///
/// # Errors
/// Fails if the kernel does not permit or does not support network namespaces.
pub fn enter_network_namespace() -> io::Result<()> {
    let network = UnshareFlags::NEWNET;
    // SAFETY: the file descriptor table stays shared, and this process still has one thread.
    unsafe {
        unshare_unsafe(network).or_else(|_| unshare_unsafe(UnshareFlags::NEWUSER | network))?;
    }
    raise_loopback()
}

/// Brings up the loopback device. Does the same as `ip link set lo up` (netdevice(7)).
fn raise_loopback() -> io::Result<()> {
    let (domain, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let socket = socket_with(domain, SocketType::DGRAM, flags, None)?;
    // SAFETY: ifreq is plain data; the name is shorter than its field and NUL-terminated. For this
    // request, the kernel reads an ifreq.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (target, source) in request.ifr_name.iter_mut().zip(b"lo") {
            *target = *source as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let set_flags = Setter::<{ libc::SIOCSIFFLAGS as Opcode }, libc::ifreq>::new(request);
        Ok(ioctl(&socket, set_flags)?)
    }
}

/// Binds this thread, and the load generator that it starts, to the load's processors. Returns the
/// target's processors.
///
/// Returns `None`, which allows all processors, if no shares were assigned or the system cannot
/// provide them. In the second case, also adds a note to the report.
pub fn divide_processors(
    shares: Option<ProcessorShares>,
    report: &mut RunReport,
) -> Option<CpuSet> {
    let shares = shares?;
    let usable = match CpuSet::usable_by_thread() {
        Ok(usable) => usable,
        Err(error) => return note_undivided(report, &error.to_string()),
    };
    let Some((target, load)) = split_cpus(&usable, shares) else {
        let reason = format!("only {} can be used", usable.cpus().len());
        return note_undivided(report, &reason);
    };
    match load.bind_thread() {
        Ok(()) => Some(target),
        Err(error) => note_undivided(report, &error.to_string()),
    }
}

fn note_undivided(report: &mut RunReport, reason: &str) -> Option<CpuSet> {
    let note =
        format!("The processors were not divided between the target and the load: {reason}.");
    report.performed.notes.push(note);
    None
}

/// Gives the target the first processors and the load the last ones, because adjacent processors
/// may be hyperthreads of one core.
fn split_cpus(usable: &CpuSet, shares: ProcessorShares) -> Option<(CpuSet, CpuSet)> {
    let cpus = usable.cpus();
    let (target, load) = (shares.target as usize, shares.load as usize);
    let begin = cpus.len().checked_sub(load)?;
    (target <= begin).then(|| {
        let part = |cpus: &[usize]| cpus.iter().copied().collect();
        (part(&cpus[..target]), part(&cpus[begin..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_has_the_first_usable_processors_and_the_load_the_last() {
        let usable: CpuSet = "2-5,8".parse().unwrap();
        let shares = |target, load| ProcessorShares { target, load };
        let known = |(target, load): (CpuSet, CpuSet)| [String::from(target), String::from(load)];
        let some = split_cpus(&usable, shares(3, 1)).map(known);
        assert_eq!(some, Some(["2,3,4", "8"].map(str::to_owned)));
        let all = split_cpus(&usable, shares(3, 2)).map(known);
        assert_eq!(all, Some(["2,3,4", "5,8"].map(str::to_owned)));
        for (target, load) in [(5, 1), (1, 6)] {
            assert_eq!(split_cpus(&usable, shares(target, load)), None);
        }
    }

    #[test]
    fn shares_beyond_the_processors_are_noted() {
        let mut done = RunReport::default();
        assert_eq!(divide_processors(None, &mut done), None);
        assert_eq!(done.performed.notes, [""; 0]);
        let shares = ProcessorShares { target: 100_000, load: 1 };
        assert_eq!(divide_processors(Some(shares), &mut done), None);
        let note = &done.performed.notes[0];
        assert!(note.contains("were not divided"), "{note}");
    }
}
