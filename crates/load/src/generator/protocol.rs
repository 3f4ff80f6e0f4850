//! The protocol of a connection: HTTP/1 or HTTP/2 behind the same few questions.

use super::channel::{Channel, Traffic};
use super::core::Core;
use super::ledger::Ledger;
use super::lost::{Fed, Lost};
use super::pipeline::Pipeline;
use super::sent::Sent;
use super::source::Source;
use crate::books::Class;
use crate::http1::Watch;
use crate::load::{Load, Timeouts};
use rustix::io::Errno;

/// The requests of a connection, by protocol.
pub(super) enum Protocol {
    One(Pipeline),
}

impl Protocol {
    pub fn new(core: &Core) -> Protocol {
        Protocol::One(Pipeline::new(core.load.lanes, core.watch()))
    }

    pub fn in_flight(&self) -> usize {
        match self {
            Protocol::One(pipeline) => pipeline.in_flight(),
        }
    }

    /// Requests that may be sent now, of `lanes` at once.
    pub fn room(&self, lanes: u32) -> u32 {
        match self {
            Protocol::One(pipeline) => lanes.saturating_sub(pipeline.in_flight() as u32),
        }
    }

    /// Whether the last request that was sent, or the server, allows no further one.
    pub fn is_last(&self) -> bool {
        match self {
            Protocol::One(pipeline) => pipeline.newest().is_some_and(|sent| sent.closes),
        }
    }

    pub fn send(
        &mut self,
        sent: Sent,
        channel: &mut Channel,
        source: &Source,
        traffic: &mut Traffic,
    ) -> Result<(), Errno> {
        match self {
            Protocol::One(pipeline) => {
                let request = source.one(sent.kind, sent.index);
                pipeline.send(Sent {
                    asked: request.asked(),
                    closes: request.closes(),
                    ..sent
                });
                channel.send(request.bytes(), traffic)
            }
        }
    }

    pub fn feed(&mut self, bytes: &[u8], now_ns: u64, ledger: &mut Ledger) -> Fed {
        match self {
            Protocol::One(pipeline) => pipeline.feed(bytes, now_ns, ledger),
        }
    }

    /// Sends what the protocol has to say of its own.
    pub fn flush(&mut self, _channel: &mut Channel, _traffic: &mut Traffic) -> Result<(), Errno> {
        match self {
            Protocol::One(_) => Ok(()),
        }
    }

    /// For a fresh connection.
    pub fn reset(&mut self, _load: &Load) {
        match self {
            Protocol::One(pipeline) => pipeline.reset(),
        }
    }

    /// The connection is over. Gives a request back that may be sent once more.
    pub fn lose(&mut self, lost: Lost, now_ns: u64, ledger: &mut Ledger) -> Option<Sent> {
        match self {
            Protocol::One(pipeline) => pipeline.lose(lost, now_ns, ledger),
        }
    }

    /// Ends requests that took too long, where they can be ended alone; else says what the connection
    /// is to be given up for.
    pub fn check_limits(
        &mut self,
        limits: Timeouts,
        now_ns: u64,
        _ledger: &mut Ledger,
    ) -> Option<Class> {
        match self {
            // Of answers in order, the oldest request stands for all.
            Protocol::One(pipeline) => pipeline.oldest()?.over(limits, now_ns),
        }
    }

    /// What is kept of the last answer.
    pub fn watch(&self) -> Option<&Watch> {
        match self {
            Protocol::One(pipeline) => pipeline.watch.as_deref(),
        }
    }

    /// Forgets all requests and gives them back.
    pub fn abandon(&mut self) -> Vec<Sent> {
        match self {
            Protocol::One(pipeline) => pipeline.abandon(),
        }
    }
}
