//! The times of one quantity, which cannot be mixed with those of another.

use super::Values;
use std::marker::PhantomData;
use std::ops::Deref;

/// Times of one kind. They are read as [`Values`], whatever they are the times of; only what is of the same kind can
/// be added.
#[derive(Debug, Clone)]
pub struct Distribution<K> {
    values: Values,
    kind: PhantomData<K>,
}

impl<K> Default for Distribution<K> {
    fn default() -> Distribution<K> {
        Distribution {
            values: Values::default(),
            kind: PhantomData,
        }
    }
}

/// Two are equal when they hold the same values, as far as a histogram tells values apart.
impl<K> PartialEq for Distribution<K> {
    fn eq(&self, other: &Distribution<K>) -> bool {
        self.values == other.values
    }
}

impl<K> Deref for Distribution<K> {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}

impl<K> From<Values> for Distribution<K> {
    fn from(values: Values) -> Distribution<K> {
        Distribution {
            values,
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Distribution<K> {
    /// An empty one.
    pub fn new() -> Distribution<K> {
        Distribution::default()
    }

    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.values.record(ns);
    }

    /// Adds a time that was not over yet: the true one is at least this long.
    pub fn record_lower_bound(&mut self, ns: u64) {
        self.values.record_lower_bound(ns);
    }

    /// Adds several equal times.
    pub(super) fn record_n(&mut self, ns: u64, count: u64) {
        self.values.record_n(ns, count);
    }

    /// Adds all values of another thread or process. Order and grouping do not matter.
    pub fn merge(&mut self, other: &Distribution<K>) {
        self.values.merge(&other.values);
    }

    /// Empties it and keeps its memory, for snapshots that swap two.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

/// A quantity in nanoseconds.
pub trait Kind {
    /// The name in files, which never changes.
    const NAME: &'static str;
}

macro_rules! kinds {
    ($($(#[$text:meta])* $kind:ident = $name:literal;)*) => {$(
        $(#[$text])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {}

        impl Kind for $kind {
            const NAME: &'static str = $name;
        }
    )*};
}

kinds! {
    /// From sending a request to the last byte of its answer: what the server and the network took.
    Service = "service";
    /// From sending a request to the first byte of its answer.
    FirstByte = "first-byte";
    /// From the intended start to the last byte: what a user would have waited. Open model only.
    Response = "response";
    /// As [`Response`], less what the generator itself was late by: what it would have been, had the request been
    /// sent in time. Together with [`Response`] it encloses what a user would have waited.
    Punctual = "punctual";
    /// From the intended start to sending.
    Lag = "lag";
    /// The part of the lag that busy connections do not explain: the generator itself was late.
    OwnLag = "own-lag";
    /// From the attempt to connect to a usable connection, with TLS where it was asked for.
    Connect = "connect";
}
