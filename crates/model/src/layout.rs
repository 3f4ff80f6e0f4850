//! What of a program's place in memory is varied between runs, so that no figure rests on one accident of it.

use serde::{Deserialize, Serialize};

/// What differs between the runs of one variant beside chance: the order of its code and data (builds), and what lies
/// above its stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// Builds of every variant, each linked with functions and data in another order; 0 for the usual one alone.
    #[serde(skip_serializing_if = "is_zero")]
    pub builds: u32,
    /// Whether a variable of a length drawn for every run is added to the environment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub env: bool,
    /// Whether programs are started under a path of a length drawn for every run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stack: bool,
    /// Whether functions begin at multiples of 64 bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub align: bool,
}

impl Layout {
    /// Whether everything is as it is without being asked for.
    pub fn is_usual(&self) -> bool {
        *self == Layout::default()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
