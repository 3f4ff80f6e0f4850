//! Handles events of a QUIC connection, like [`Connection::on_event`] for sockets.

use super::{Connection, State};
use crate::generator::core::Core;
use crate::generator::protocol::Protocol;
use crate::generator::quic::{class_of_connecting, lost_by};
use crate::generator::sent::Lost;
use crate::load::Address;
use crate::outcomes::ErrorClass;
use speedwell_load_h3::{Event, What};

impl Connection {
    /// Starts connecting.
    pub(super) fn open_quic(&mut self, token: u64, core: &mut Core) {
        let local = core.load.target.local;
        let address = core.next_address().clone();
        let (Protocol::Three(streams), Some(engine)) = (&mut self.protocol, &mut core.quic) else {
            return;
        };
        match address {
            Address::Internet(to) => streams.connect(to, local, token, engine),
            // Loads with such an address are rejected before they start.
            Address::Unix(_) => self.fail_to_open(ErrorClass::ConnectUnreachable, core),
        }
    }

    /// Handles an event of the connection.
    pub fn on_quic(&mut self, event: Event, core: &mut Core) {
        let at_ns = core.clock.time_of(event.at);
        let Protocol::Three(streams) = &mut self.protocol else {
            return;
        };
        match (event.what, self.state) {
            (What::Established(established), State::Connecting) => {
                if let Some(seen) = &mut core.seen {
                    seen.connected_by_quic(&established, at_ns - self.begun_ns);
                }
                streams.establish(*established);
                self.opened(core);
            }
            (What::NotEstablished(error), State::Connecting) => {
                self.fail_to_open(class_of_connecting(error), core);
            }
            (What::Ended(ended), State::Open) => self.lose(lost_by(ended), core),
            (What::Closing, State::Open) => {
                streams.closing();
                self.after_event(core);
            }
            (What::Stream(key, event), State::Open) => {
                let before = streams.in_flight();
                let had_room = streams.room() > self.thinking && !self.is_last;
                streams.on_event(key, event, at_ns, &mut core.recorder);
                let ended = before - streams.in_flight();
                core.ended += ended as u32;
                let has_room = streams.room() > self.thinking;
                if has_room && !had_room {
                    self.freed.since_ns = at_ns;
                }
                self.after_event(core);
            }
            _ => {}
        }
    }

    /// Closes the connection at the end of the load.
    pub fn hang_up(&mut self) {
        self.protocol.hang_up();
    }

    /// Closes the connection if it accepts no further request and has none in flight.
    fn after_event(&mut self, core: &mut Core) {
        self.is_last |= self.protocol.is_last();
        let is_awaited = self.pending.is_some() || self.protocol.in_flight() > 0;
        if self.is_last && !is_awaited {
            self.lose(Lost::Ours, core);
        }
    }
}
