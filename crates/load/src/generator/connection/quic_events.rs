//! Opens QUIC connections and handles their events, as [`LoadConnection::handle_event`] does for
//! sockets.

use super::{ConnectionState, LoadConnection, ProtocolState};
use crate::generator::quic::connection_loss;
use crate::generator::recorder::ConnectionLoss;
use crate::generator::worker_core::WorkerCore;
use speedwell_model::load::outcomes::ErrorClass;

impl LoadConnection {
    pub(super) fn open_quic(&mut self, token: u64, core: &mut WorkerCore) {
        let local = core.load.target.local;
        let address = core.next_address().clone();
        let (ProtocolState::Three(streams), Some(engine)) = (&mut self.protocol, &mut core.quic)
        else {
            return;
        };
        match address {
            crate::load::ServerAddress::Internet(to) => streams.connect(to, local, token, engine),
            // HTTP/3 loads with a Unix socket are rejected before they start.
            crate::load::ServerAddress::Unix(_) => {
                self.fail_to_open(ErrorClass::ConnectUnreachable, core)
            }
        }
    }

    /// Handles an event of the connection.
    pub fn handle_quic_event(&mut self, event: crate::http3::H3Event, core: &mut WorkerCore) {
        use crate::http3::EventKind;
        let at_ns = core.clock.to_load_ns(event.at);
        let ProtocolState::Three(streams) = &mut self.protocol else {
            return;
        };
        match (event.kind, self.state) {
            (EventKind::Established(established), ConnectionState::Connecting) => {
                if let Some(facts) = &mut core.facts {
                    facts.record_quic_connect(&established, at_ns - self.begun_ns);
                }
                streams.set_established(*established);
                self.mark_open(core);
            }
            (EventKind::NotEstablished(class), ConnectionState::Connecting) => {
                self.fail_to_open(class, core);
            }
            (EventKind::Ended(ended), ConnectionState::Open) => {
                self.end_connection(connection_loss(ended), core)
            }
            (EventKind::Closing, ConnectionState::Open) => {
                streams.is_draining = true;
                self.close_if_done(core);
            }
            (EventKind::Stream(key, event), ConnectionState::Open) => {
                let before = streams.in_flight();
                let had_room = streams.available_streams() > self.thinking && !self.is_last;
                streams.handle_event(key, event, at_ns, &mut core.recorder);
                let ended = before - streams.in_flight();
                core.ended += ended as u32;
                let has_room = streams.available_streams() > self.thinking;
                if has_room && !had_room {
                    self.freed.since_ns = at_ns;
                }
                self.close_if_done(core);
            }
            _ => {}
        }
    }

    /// Closes the connection if it accepts no further request and has none in flight.
    fn close_if_done(&mut self, core: &mut WorkerCore) {
        self.is_last |= self.protocol.is_last();
        let is_awaited = self.pending.is_some() || self.protocol.in_flight() > 0;
        if self.is_last && !is_awaited {
            self.end_connection(ConnectionLoss::ClosedByUs, core);
        }
    }
}
