//! The variant that is measured twice. What differs between it and itself is noise: the floor under which no
//! other difference is distinguishable from none (A/A test).

/// What the name of the second measurement ends with.
const AGAIN: &str = "-again";

/// The name under which a variant is measured a second time.
pub fn again(variant: &str) -> String {
    format!("{variant}{AGAIN}")
}

/// Whether this name is that of a second measurement.
pub fn is_again(name: &str) -> bool {
    origin(name) != name
}

/// The variant that is measured under this name.
pub fn origin(name: &str) -> &str {
    name.strip_suffix(AGAIN).unwrap_or(name)
}
