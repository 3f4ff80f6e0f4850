//! Describes where a run is executed: the address at which other machines reach the executing
//! machine, and the sender of the run's loads. Start at [`RunSite`].

use crate::execution::load::{self, send_load, wrap_measured};
use anyhow::Result;
use speedwell_load::load::{LoadShare, ServerAddress};
use speedwell_model::assignment::PlaceholderValue;
use speedwell_model::load::run::LoadRun;
use speedwell_model::load::spec::LoadSpec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// Sends loads to a server.
pub trait LoadSender: Sync {
    /// Sends a load to the server listening at `address`, until the load is complete or `stop` is
    /// set.
    ///
    /// # Errors
    /// Fails if the load cannot be sent completely.
    fn send(
        &self,
        spec: &LoadSpec,
        seed: u64,
        address: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<LoadRun>;
}

/// Sends loads from this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalSender;

impl LoadSender for LocalSender {
    fn send(
        &self,
        spec: &LoadSpec,
        seed: u64,
        address: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<LoadRun> {
        let mut job = load::build_job(spec, seed, LoadShare::ONLY)?;
        // A name such as 'localhost' can resolve to several addresses; use the one on which the
        // server listens.
        job.load.target.addresses = vec![ServerAddress::Internet(address)];
        let measured = send_load(&job, stop, &mut |_| ())?;
        Ok(wrap_measured(&job, measured))
    }
}

/// The network address of the machine that executes a run, and the sender of the run's loads.
pub struct RunSite<'a> {
    /// Address at which other machines reach this machine; servers must listen on it. `None` stands
    /// for the loopback address.
    pub address: Option<IpAddr>,
    /// Sends the loads of the run.
    pub sender: &'a dyn LoadSender,
}

impl Default for RunSite<'_> {
    fn default() -> Self {
        RunSite { address: None, sender: &LocalSender }
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
