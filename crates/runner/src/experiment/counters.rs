//! What is counted while the load is sent.

use super::instructions::Counter;
use speedwell_environment::{Spent, Stretch};

/// Counting that is under way.
pub struct Counting<'a> {
    stretch: Stretch,
    instructions: Option<(&'a Counter, u64)>,
}

/// What was counted.
pub struct Counted {
    /// Time, processor time, and what else the machine did.
    pub spent: Spent,
    /// Instructions of the target in user mode.
    pub instructions: Option<u64>,
}

impl<'a> Counting<'a> {
    /// Begins, for the target whose first process is `pid`.
    pub fn begin(pid: i32, counter: Option<&'a Counter>) -> Counting<'a> {
        let instructions = counter.and_then(|counter| Some((counter, counter.read()?)));
        Counting {
            instructions,
            stretch: Stretch::begin(pid),
        }
    }

    /// Ends.
    pub fn end(self) -> Counted {
        let spent = self.stretch.end();
        let instructions = self
            .instructions
            .and_then(|(counter, before)| Some(counter.read()?.saturating_sub(before)));
        Counted {
            spent,
            instructions,
        }
    }
}
