//! Where a run is: the address at which others reach it, and who sends its loads. Start at [`Site`].

use crate::load::{self, as_run, generate};
use anyhow::Result;
use speedwell_load::load::{Address, Part};
use speedwell_model::assignment::Blank;
use speedwell_model::load_run::LoadRun;
use speedwell_model::load_spec::LoadSpec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

/// Who sends the loads of a server.
pub trait SendsLoads: Sync {
    /// Sends a load to a server that listens at `to`, until it is over or told to stop.
    ///
    /// # Errors
    /// It cannot be sent, or not all of it was.
    fn send(
        &self,
        spec: &LoadSpec,
        seed: u64,
        to: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<LoadRun>;
}

/// This process sends them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Here;

impl SendsLoads for Here {
    fn send(
        &self,
        spec: &LoadSpec,
        seed: u64,
        to: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<LoadRun> {
        let mut job = load::job(spec, seed, Part::WHOLE)?;
        // A name such as 'localhost' has several addresses; the server listens on this one.
        job.load.target.addresses = vec![Address::Internet(to)];
        let measured = generate(&job, stop, &mut |_| ())?;
        Ok(as_run(&job, measured))
    }
}

/// Where a run is, seen from its machine.
pub struct Site<'a> {
    /// The address at which other machines reach this one, and at which a server has to listen; the loopback without.
    pub address: Option<IpAddr>,
    /// Who sends the loads.
    pub sender: &'a dyn SendsLoads,
}

impl Default for Site<'_> {
    fn default() -> Self {
        Site {
            address: None,
            sender: &Here,
        }
    }
}

impl Site<'_> {
    /// What others call this machine.
    pub fn host(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// What is known of a run whose target is here: the names of this machine.
    pub(super) fn blanks(&self) -> Vec<Blank> {
        let host = self.host().to_string();
        vec![
            ("host".to_owned(), host.clone()),
            ("target.host".to_owned(), host),
        ]
    }

    /// The addresses that a server on a port may have here.
    pub fn places(&self, port: u16) -> Vec<Address> {
        let usual = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let own = self.address.map_or(usual.to_vec(), |address| vec![address]);
        let place = |ip: IpAddr| Address::Internet(SocketAddr::new(ip, port));
        own.into_iter().map(place).collect()
    }
}
