//! One observation of a blocked comparison of two sides.
//!
//! Decides nothing: it is the input of the tests that know blocks. It must not know what was
//! observed.

/// Which of the two compared sides an observation belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The reference.
    Baseline,
    /// What is compared with the reference.
    Candidate,
}

/// One value, measured in a block within which the order of the sides was drawn at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The measured value, in any unit; positive.
    pub value: f64,
    /// The side it was measured for.
    pub side: Side,
    /// The block it was measured in; any number, equal for the members of a block.
    pub block: u32,
}

impl Observation {
    /// An observation of the baseline.
    pub fn baseline(value: f64, block: u32) -> Observation {
        Observation {
            value,
            side: Side::Baseline,
            block,
        }
    }

    /// An observation of the candidate.
    pub fn candidate(value: f64, block: u32) -> Observation {
        Observation {
            value,
            side: Side::Candidate,
            block,
        }
    }
}
