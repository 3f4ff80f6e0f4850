//! Units that are another one times a factor. Times are kept in nanoseconds, sizes in bytes.

/// A unit, the one that is kept, and how many of those it is. Sizes with k, M, G are powers of 1000,
/// with Ki, Mi, Gi powers of 1024 (IEC 80000-13).
const UNITS: [(&str, &str, f64); 13] = [
    ("ns", "ns", 1.0),
    ("us", "ns", 1e3),
    ("µs", "ns", 1e3),
    ("ms", "ns", 1e6),
    ("s", "ns", 1e9),
    ("min", "ns", 60e9),
    ("B", "B", 1.0),
    ("kB", "B", 1e3),
    ("MB", "B", 1e6),
    ("GB", "B", 1e9),
    ("KiB", "B", 1024.0),
    ("MiB", "B", 1_048_576.0),
    ("GiB", "B", 1_073_741_824.0),
];

/// A unit of time or size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// As it is written.
    pub name: &'static str,
    /// The unit that is kept.
    pub kept: &'static str,
    /// How many of the kept unit it is.
    pub factor: f64,
}

/// The unit of that name.
pub fn find(name: &str) -> Option<Unit> {
    let found = UNITS.iter().find(|(known, ..)| *known == name);
    found.map(|&(name, kept, factor)| Unit { name, kept, factor })
}

/// The names of all units.
pub fn names() -> Vec<String> {
    UNITS.iter().map(|(name, ..)| (*name).to_owned()).collect()
}
