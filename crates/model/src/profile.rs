//! Defines profiles, which are weighted call stacks, and the recordings of a session.
//!
//! This module neither records nor draws profiles. Start at [`StackProfile`].

use crate::Case;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Separates the frames of a folded stack, as in all tools that use this format.
const BETWEEN_FRAMES: char = ';';

/// The stacks of one recording or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackProfile {
    /// The profiler, which determines the kinds of code that are visible.
    pub tool: ProfileTool,
    /// The unit of the weights.
    pub unit: WeightUnit,
    /// Number of samples, if known.
    pub samples: Option<u64>,
    /// Caveats for the reader, as whole sentences.
    #[serde(alias = "remarks")]
    pub notes: Vec<String>,
    /// Weights by folded stack: frame names joined by `;`, outermost caller first.
    stacks: BTreeMap<String, u64>,
}

/// The profiler that recorded a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileTool {
    /// Linux perf. It sees native code. It also sees scripts if their runtime reports the names of
    /// compiled functions.
    Perf,
    /// V8's own profiler (`node --cpu-prof`). It sees only JavaScript functions.
    V8,
    /// Unknown: a file of folded stacks.
    Folded,
}

/// The unit of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightUnit {
    /// Processor time in nanoseconds.
    Nanoseconds,
    /// Time in microseconds.
    Microseconds,
    /// Hardware events, such as cycles.
    Events,
    /// Unknown.
    Unknown,
}

impl StackProfile {
    /// Creates a profile without stacks.
    pub fn new(tool: ProfileTool, unit: WeightUnit) -> StackProfile {
        StackProfile { tool, unit, samples: None, notes: Vec::new(), stacks: BTreeMap::new() }
    }

    /// Adds a weight to the stack of these frames; the outermost caller comes first.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, weight: u64) {
        let mut stack = String::new();
        for frame in frames {
            if !stack.is_empty() {
                stack.push(BETWEEN_FRAMES);
            }
            // Replace the separator. A name that contains it would become two frames.
            stack.extend(frame.chars().map(|character| match character {
                BETWEEN_FRAMES => ':',
                character if character.is_control() => ' ',
                character => character,
            }));
        }
        let total = self.stacks.entry(stack).or_default();
        *total = total.saturating_add(weight);
    }

    /// Adds all stacks and samples of another recording by the same profiler.
    pub fn merge(&mut self, other: &StackProfile) {
        for (stack, weight) in other.folded() {
            let total = self.stacks.entry(stack.to_owned()).or_default();
            *total = total.saturating_add(weight);
        }
        self.samples = self.samples.zip(other.samples).map(|(a, b)| a + b);
    }

    /// Iterates over folded stacks, each with its weight.
    pub fn folded(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))
    }

    /// Iterates over stacks, as frames, each with its weight.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        self.folded().map(|(stack, weight)| (stack.split(BETWEEN_FRAMES).collect(), weight))
    }

    /// Total weight of all stacks.
    pub fn total(&self) -> u64 {
        self.stacks.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// Writes one line per stack: the folded stack, a space and the weight.
impl fmt::Display for StackProfile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stack, weight) in self.folded() {
            writeln!(out, "{stack} {weight}")?;
        }
        Ok(())
    }
}

impl ProfileTool {
    /// Describes what the profiler cannot see, as a sentence.
    pub fn blind_spot(self) -> Option<&'static str> {
        match self {
            ProfileTool::V8 => Some(
                "V8's profiler sees only JavaScript functions: it attributes the runtime's work \
                 to the calling function, to '(program)' or to '(garbage collector)'. Its times include \
                 waiting for a processor.",
            ),
            ProfileTool::Perf | ProfileTool::Folded => None,
        }
    }
}

/// The profile of one case under one variant. It comes from a separate run that was not timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecording {
    /// The case.
    pub case: Case,
    /// The name of the variant.
    pub variant: String,
    /// The profile.
    pub profile: ProfileOutcome,
}

/// A profile, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileOutcome {
    /// The profile. An `Arc` lets several copies of a session share it.
    Taken(Arc<StackProfile>),
    /// Why there is no profile, as the end of a sentence.
    Missing(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_the_same_stack_add_up_and_the_text_is_folded() {
        let mut profile = StackProfile::new(ProfileTool::Perf, WeightUnit::Nanoseconds);
        profile.add(["main", "work"], 3);
        profile.add(["main", "idle"], 1);
        profile.add(["main", "work"], 4);
        assert_eq!(profile.to_string(), "main;idle 1\nmain;work 7\n");
        assert_eq!(profile.total(), 8);
    }

    #[test]
    fn a_name_with_the_separator_stays_one_frame() {
        let mut profile = StackProfile::new(ProfileTool::Perf, WeightUnit::Unknown);
        profile.add(["main", "Lorg/Foo;::run"], 1);
        assert_eq!(profile.stacks().next().unwrap().0, ["main", "Lorg/Foo:::run"]);
    }
}
