//! Hands the totals of a thread over to the one that watches, without making the thread wait.

use crate::measured::Totals;
use std::sync::Mutex;

/// A place for one full totals and one empty one.
#[derive(Debug)]
pub(super) struct Mailbox {
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    full: Option<Handed>,
    spare: Option<Box<Totals>>,
}

/// What a thread counted in an interval.
#[derive(Debug)]
pub(super) struct Handed {
    pub totals: Box<Totals>,
    pub is_warmup: bool,
    /// The end of the interval in which it was counted, in nanoseconds since the start.
    pub until_ns: u64,
}

impl Mailbox {
    pub fn new(is_closed: bool) -> Mailbox {
        Mailbox {
            inside: Mutex::new(Inside {
                full: None,
                spare: Some(Box::new(Totals::new(is_closed))),
            }),
        }
    }

    /// Exchanges the totals for an empty one. Does nothing while the last one has not been taken
    /// out, or while that is being done.
    pub fn hand_over(&self, totals: &mut Box<Totals>, is_warmup: bool, until_ns: u64) -> bool {
        let Ok(mut inside) = self.inside.try_lock() else {
            return false;
        };
        if inside.full.is_some() {
            return false;
        }
        let Some(mut spare) = inside.spare.take() else {
            return false;
        };
        spare.replies = totals.replies.following();
        inside.full = Some(Handed {
            totals: std::mem::replace(totals, spare),
            is_warmup,
            until_ns,
        });
        true
    }

    /// Takes out what was handed over.
    pub fn take(&self) -> Option<Handed> {
        self.inside.lock().ok()?.full.take()
    }

    /// Gives an totals back for the next exchange.
    pub fn give_back(&self, mut totals: Box<Totals>) {
        totals.clear();
        if let Ok(mut inside) = self.inside.lock() {
            inside.spare = Some(totals);
        }
    }
}
