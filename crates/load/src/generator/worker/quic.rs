//! Waiting on QUIC connections: the counterpart of waiting for sockets.

use super::Worker;

impl Worker<'_> {
    /// Waits until something happens on connections, at most until then, and takes it.
    pub(super) fn receive_from_streams(&mut self, now_ns: u64, until_ns: u64) {
        let mut happened = std::mem::take(&mut self.happened);
        if let Some(engine) = &mut self.core.quic {
            engine.wait(until_ns, &mut happened);
        }
        for event in happened.drain(..) {
            let id = event.token as u32;
            let connection = &mut self.connections[id as usize];
            if connection.is_meant(event.token) {
                connection.on_quic(event, &mut self.core);
                self.settle(id, now_ns);
            }
        }
        self.happened = happened;
    }

    /// Gives up all connections, and lets the servers know.
    pub(in crate::generator) fn say_goodbye(&mut self) {
        for connection in &mut self.connections {
            connection.hang_up();
        }
        if let Some(engine) = &mut self.core.quic {
            engine.farewell(self.core.open);
        }
    }
}
