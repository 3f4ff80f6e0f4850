//! Describes where a run is executed ([`RunSite`]), and picks its port. Isolation gives a run's
//! target and its load separate processors, and a network namespace with only a loopback device. In
//! such a namespace, a fixed port is free, and no other process can answer for the server
//! (network_namespaces(7)). Entering the namespace affects the whole process, which must still have
//! a single thread.

use super::metrics::{RunReport, StageResult, stage_failure};
use crate::execution::load::{build_job, send_load, wrap_measured};
use crate::execution::server::{
    ListenerOwner, ReadinessFailure, describe_listeners, find_listener_owner, free_port,
};
use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use speedwell_load::load::{LoadShare, ServerAddress};
use speedwell_machine::process::CpuSet;
use speedwell_model::assignment::{PlaceholderValue, ProcessorShares};
use speedwell_model::load::measurement::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::stage_report::RunStage;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;

/// Sends a load, with its seed, to the server listening at an address, until the load is complete
/// or the flag is set. Fails if the load cannot be sent completely.
type LoadSender<'a> =
    &'a (dyn Fn(&LoadSpec, u64, SocketAddr, &AtomicBool) -> anyhow::Result<LoadRun> + Sync);

/// Sends a load from this process.
fn send_locally(
    spec: &LoadSpec,
    seed: u64,
    address: SocketAddr,
    stop: &AtomicBool,
) -> anyhow::Result<LoadRun> {
    let mut job = build_job(spec, seed, LoadShare::ONLY)?;
    // A name such as 'localhost' can resolve to several addresses; use the one on which the server
    // listens.
    job.load.target.addresses = vec![ServerAddress::Internet(address)];
    let measured = send_load(&job, stop, &mut |_| ())?;
    Ok(wrap_measured(&job, measured))
}

/// The network address of the machine that executes a run, and the sender of the run's loads.
pub struct RunSite<'a> {
    /// Address at which other machines reach this machine; servers must listen on it. `None` stands
    /// for the loopback address.
    pub address: Option<IpAddr>,
    /// Sends the loads of the run.
    pub sender: LoadSender<'a>,
}

impl Default for RunSite<'_> {
    fn default() -> Self {
        RunSite { address: None, sender: &send_locally }
    }
}

impl RunSite<'_> {
    /// Returns the address at which other machines reach this machine, or the loopback address.
    pub fn host(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Returns the placeholders for the address of this machine, which runs the target.
    pub(super) fn placeholders(&self) -> Vec<PlaceholderValue> {
        let host = self.host().to_string();
        vec![("host".to_owned(), host.clone()), ("target.host".to_owned(), host)]
    }

    /// Returns the addresses at which a server with this port may listen.
    pub fn listen_addresses(&self, port: u16) -> Vec<ServerAddress> {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let addresses = self.address.map_or(loopback.to_vec(), |address| vec![address]);
        let server_address = |ip: IpAddr| ServerAddress::Internet(SocketAddr::new(ip, port));
        addresses.into_iter().map(server_address).collect()
    }
}

/// Picks the port of the run. A given `port` must be free. Without one, picks any free port, or a
/// free port in the range `ports` if that is given.
pub fn pick_port(
    port: Option<u16>,
    ports: Option<(u16, u16)>,
    site: &RunSite<'_>,
) -> StageResult<u16> {
    let find_holder = |port: u16| site.listen_addresses(port).iter().find_map(describe_listeners);
    match (port, ports) {
        (Some(port), _) => find_holder(port).map_or(Ok(port), |names| {
            let reason = format!("{port} is already in use by {names}");
            Err(stage_failure(RunStage::Port, reason))
        }),
        (None, None) => free_port(site.host())
            .map_err(|error| stage_failure(RunStage::Port, format!("no port is free: {error}"))),
        (None, Some((first, last))) => {
            // Concurrent runs begin their search at different ports, so that they do not race for
            // the same port.
            let count = u32::from(last - first) + 1;
            let begin = std::process::id() % count;
            let port_at = |offset: u32| first + ((begin + offset) % count) as u16;
            let is_free = |port: &u16| TcpListener::bind((site.host(), *port)).is_ok();
            let unused_port =
                (0..count).map(port_at).find(|port| find_holder(*port).is_none() && is_free(port));
            let reason = || format!("none of {first}-{last} is free");
            unused_port.ok_or_else(|| stage_failure(RunStage::Port, reason()))
        }
    }
}

/// Returns the address on which the process `pid` or one of its descendants listens on `port`.
pub fn find_listener(
    site: &RunSite<'_>,
    port: u16,
    pid: i32,
) -> Result<SocketAddr, ReadinessFailure> {
    let nobody = match site.address {
        None => format!("nothing listens on port {port}"),
        Some(host) => format!("nothing listens on {}", SocketAddr::new(host, port)),
    };
    let mut failure = ReadinessFailure::NotYet(nobody);
    for address in site.listen_addresses(port) {
        match (find_listener_owner(&address, pid), address) {
            (ListenerOwner::Own, ServerAddress::Internet(address)) => return Ok(address),
            (ListenerOwner::Stranger(owner), _) => {
                failure = ReadinessFailure::Never(format!(
                    "port {port} belongs to {owner}, which the target did not start"
                ));
            }
            _ => {}
        }
    }
    Err(failure)
}

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
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
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
    let divide = || -> Result<CpuSet, String> {
        let usable = CpuSet::usable_by_thread().map_err(|error| error.to_string())?;
        let (target, load) = split_cpus(&usable, shares)
            .ok_or_else(|| format!("only {} can be used", usable.cpus().len()))?;
        load.bind_thread().map_err(|error| error.to_string())?;
        Ok(target)
    };
    let note_undivided = |reason: String| {
        report.performed.notes.push(format!(
            "The processors were not divided between the target and the load: {reason}."
        ));
    };
    divide().map_err(note_undivided).ok()
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
