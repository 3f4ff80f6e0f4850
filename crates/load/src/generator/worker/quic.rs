//! Waiting on QUIC connections: the counterpart of waiting for sockets.

use super::Worker;

impl Worker<'_> {
    /// Waits for what happens on connections, and takes it. Answers are not waited for in batches:
    /// acknowledgements and timers of QUIC would wait with them.
    pub(super) fn wait_for_streams(&mut self, now_ns: u64, until_ns: u64) {
        let until_ns = until_ns.min(self.next_tick_ns).min(self.next_limits_ns);
        let until_ns = match self.core.load.rules.busy_poll {
            true => now_ns,
            false => until_ns,
        };
        self.check.report.loops += 1;
        self.core.traffic.calls += 1;
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
