//! The open model's part of the loop: what is due goes out whatever the server does, over connections
//! that are made as they are needed.

use super::super::connection::{Connection, State};
use super::super::pacing::Pacing;
use super::Worker;
use crate::http1::Summary;

impl Worker<'_> {
    /// Open: what is due goes to whoever has had room the longest.
    pub(super) fn send_open(&mut self, now_ns: u64) {
        let Pacing::Open(pacing) = &mut self.pacing else {
            return;
        };
        pacing.advance(now_ns);
        for class in std::mem::take(&mut self.core.failed_to_open) {
            // A connection that was wanted and did not come about is what became of the request
            // that has waited longest.
            if let Some(sent) = pacing.take(now_ns) {
                let sent = self.core.attempt(sent);
                let nothing = Summary::default();
                self.core.recorder.failed(&sent, class, now_ns, &nothing);
            }
        }
        while pacing.backlog > 0 {
            let Some(id) = self.listed.front().copied() else {
                break;
            };
            let connection = &mut self.connections[id as usize];
            if connection.has_room(self.core.load)
                && let Some(sent) = pacing.take(now_ns)
            {
                let sent = self.core.attempt(sent);
                connection.send(sent, &mut self.core);
                // Of several streams, the next request that is due takes the next one; what is due at
                // once goes out at once.
                if pacing.backlog == 0 || !connection.has_room(self.core.load) {
                    connection.flush(&mut self.core);
                }
                continue;
            }
            connection.is_listed = false;
            self.listed.pop_front();
            if let State::Closed { .. } = connection.state() {
                self.closed.push(id);
            }
        }
        let missing = pacing.backlog.saturating_sub(u64::from(self.core.opening));
        self.grow(missing, now_ns);
    }

    /// Makes connections for requests that are due and have none.
    fn grow(&mut self, missing: u64, now_ns: u64) {
        for _ in 0..missing {
            let ready = self.closed.iter().position(|id| {
                matches!(self.connections[*id as usize].state(),
                    State::Closed { from_ns } if from_ns <= now_ns)
            });
            if let Some(at) = ready {
                let id = self.closed.swap_remove(at);
                self.connections[id as usize].open(None, now_ns, &mut self.core);
                self.settle(id, now_ns);
                continue;
            }
            let most = self.core.most_connections();
            if self.connections.len() as u32 >= most {
                self.reached_most_connections = true;
                return;
            }
            let id = self.connections.len() as u32;
            let mut connection = Connection::new(id, &self.core);
            connection.open(None, now_ns, &mut self.core);
            self.connections.push(connection);
            self.settle(id, now_ns);
        }
    }
}
