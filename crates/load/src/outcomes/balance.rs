//! Whether the counts add up, and if not, which sum is wrong and by how much.

use super::{ErrorClass, OutcomeCounts};

/// One line of the totals: a name and a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomeCount {
    /// `ok`, the name of a [`ErrorClass`], `in-flight`, `cancelled` or `unsent`.
    pub name: &'static str,
    /// Requests that left by this door.
    pub count: u64,
}

/// Two counts of the same things that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{left_name} are {left}, but {right_name} are {right}")]
pub struct Imbalance {
    /// What was counted on one side.
    pub left_name: &'static str,
    /// Its count.
    pub left: u64,
    /// What was counted on the other.
    pub right_name: &'static str,
    /// Its count.
    pub right: u64,
}

impl OutcomeCounts {
    /// Every door with its count, in a fixed order: they add up to the attempts.
    pub fn rows(&self) -> impl Iterator<Item = OutcomeCount> + '_ {
        let row = |name, count| OutcomeCount { name, count };
        let errors = ErrorClass::every().map(move |class| row(class.name(), self.errors(class)));
        let last = [
            row("in-flight", self.in_flight),
            row("cancelled", self.cancelled),
            row("unsent", self.unsent),
        ];
        std::iter::once(row("ok", self.ok))
            .chain(errors)
            .chain(last)
    }

    /// The pairs of counts that must be equal, each with the names of its sides.
    fn sums(&self) -> [(&'static str, u64, &'static str, u64); 8] {
        let ended: u64 = self.rows().map(|row| row.count).sum();
        let answered: u64 = ErrorClass::every()
            .filter(|class| class.is_answered())
            .map(|class| self.errors(class))
            .sum();
        let lines = &self.connections;
        let settled = lines.opened + lines.failed + lines.pending;
        [
            (
                "requests attempted",
                self.attempted,
                "requests accounted for",
                ended,
            ),
            (
                "whole answers",
                self.ok + answered,
                "counted statuses",
                self.codes.total(),
            ),
            (
                "reset streams",
                self.errors(ErrorClass::H2Reset),
                "counted reset codes",
                self.resets.total(),
            ),
            (
                "reset HTTP/3 streams",
                self.errors(ErrorClass::H3Reset),
                "counted HTTP/3 reset codes",
                self.resets_of_http3.total(),
            ),
            (
                "interim answers",
                self.interim.total(),
                "those from 100 to 199",
                self.interim.of_hundred(1),
            ),
            (
                "attempts to connect",
                lines.tried,
                "connections accounted for",
                settled,
            ),
            (
                "requests written",
                lines.sends,
                "those on new and used connections",
                lines.first_sends + lines.reused_sends,
            ),
            (
                "body bytes beyond those received",
                self.bytes.body.saturating_sub(self.bytes.received),
                "possible ones",
                0,
            ),
        ]
    }

    /// Checks every sum that must hold once the counts are closed.
    ///
    /// # Errors
    /// The sums that do not hold.
    pub fn balance(&self) -> Result<(), Vec<Imbalance>> {
        let wrong: Vec<Imbalance> = self
            .sums()
            .into_iter()
            .filter(|(_, left, _, right)| left != right)
            .map(|(left_name, left, right_name, right)| Imbalance {
                left_name,
                left,
                right_name,
                right,
            })
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
