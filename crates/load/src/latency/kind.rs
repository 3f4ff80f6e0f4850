//! The quantities that are timed. Each is a type, so that histograms of two kinds cannot be mixed.

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
