//! What is to be said of an open load follows from what was measured alone.

use super::{Latency, Measured};
use crate::latency::{Achieved, OpenVerdict};

impl Measured {
    /// Whether the load was the one that was asked for and the generator kept up; `None` of a closed
    /// load, which has no schedule to miss.
    pub fn verdict(&self) -> Option<OpenVerdict> {
        let Latency::Open(latency) = &self.account.latency else {
            return None;
        };
        let books = &self.account.books;
        let unsent = books.rows().find(|row| row.name == "unsent");
        let due = books.attempts();
        let achieved = Achieved {
            due,
            sent: due.saturating_sub(unsent.map_or(0, |row| row.count)),
        };
        Some(OpenVerdict::of(latency, achieved))
    }
}
