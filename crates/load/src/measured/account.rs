//! Counts and times that are added up together.

use super::{Latency, Replies};
use crate::books::Books;
use serde::{Deserialize, Serialize};

/// What is counted and timed of a set of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// What became of every request.
    pub books: Books,
    /// How long they took.
    pub latency: Latency,
    /// What the answers were like.
    pub replies: Replies,
}

impl Account {
    /// An empty one, for a closed or an open load.
    pub fn new(is_closed: bool) -> Account {
        Account {
            books: Books::new(),
            latency: Latency::new(is_closed),
            replies: Replies::default(),
        }
    }

    /// Adds the account of another thread, time or generator of the same load.
    pub fn merge(&mut self, other: &Account) {
        self.books.merge(&other.books);
        self.latency.merge(&other.latency);
        self.replies.merge(&other.replies);
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.books = Books::new();
        self.latency.clear();
        self.replies = Replies::default();
    }
}
