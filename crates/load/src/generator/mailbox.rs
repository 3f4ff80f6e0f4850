//! Hands the account of a thread over to the one that watches, without making the thread wait.

use crate::measured::Account;
use std::sync::Mutex;

/// A place for one full account and one empty one.
#[derive(Debug)]
pub(super) struct Mailbox {
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    full: Option<Handed>,
    spare: Option<Box<Account>>,
}

/// What a thread counted in a stretch of time.
#[derive(Debug)]
pub(super) struct Handed {
    pub account: Box<Account>,
    pub is_warmup: bool,
}

impl Mailbox {
    pub fn new(is_closed: bool) -> Mailbox {
        Mailbox {
            inside: Mutex::new(Inside {
                full: None,
                spare: Some(Box::new(Account::new(is_closed))),
            }),
        }
    }

    /// Exchanges the account for an empty one. Does nothing while the last one has not been taken
    /// out, or while that is being done.
    pub fn hand_over(&self, account: &mut Box<Account>, is_warmup: bool) -> bool {
        let Ok(mut inside) = self.inside.try_lock() else {
            return false;
        };
        if inside.full.is_some() {
            return false;
        }
        let Some(mut spare) = inside.spare.take() else {
            return false;
        };
        spare.replies = account.replies.following();
        inside.full = Some(Handed {
            account: std::mem::replace(account, spare),
            is_warmup,
        });
        true
    }

    /// Takes out what was handed over.
    pub fn take(&self) -> Option<Handed> {
        self.inside.lock().ok()?.full.take()
    }

    /// Gives an account back for the next exchange.
    pub fn give_back(&self, mut account: Box<Account>) {
        account.clear();
        if let Ok(mut inside) = self.inside.lock() {
            inside.spare = Some(account);
        }
    }
}
