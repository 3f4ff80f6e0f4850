//! Where a program spent its time: stacks of functions, each with a weight; and the recordings of a session.
//!
//! Decides what two profiles must have in common to be compared. It must not know how a recording is made or
//! drawn. Start at [`Profile`].

use crate::Case;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Stands between the frames of a stack, as in all programs that write folded stacks.
const BETWEEN_FRAMES: char = ';';

/// What one recording, or one file of stacks, holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// What recorded it, which decides what it cannot see.
    pub tool: ProfileTool,
    /// The unit of the weights.
    pub unit: WeightUnit,
    /// How often the program was looked at, if that is known.
    pub samples: Option<u64>,
    /// What else the reader must know, as whole sentences.
    pub remarks: Vec<String>,
    /// Weights by stack: names of frames joined by `;`, the outermost caller first.
    stacks: BTreeMap<String, u64>,
}

/// What recorded a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileTool {
    /// Linux perf: native code, and scripts whose runtime names its compiled code.
    Perf,
    /// V8's own profiler (`node --cpu-prof`): JavaScript functions only.
    V8,
    /// Not known: a file of folded stacks does not say.
    Folded,
}

/// What the weights count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightUnit {
    /// Time on a processor, in nanoseconds.
    Nanoseconds,
    /// Time, in microseconds.
    Microseconds,
    /// Events of the processor, such as cycles.
    Events,
    /// Not known.
    Unknown,
}

impl Profile {
    /// A profile without stacks.
    pub fn new(tool: ProfileTool, unit: WeightUnit) -> Profile {
        Profile {
            tool,
            unit,
            samples: None,
            remarks: Vec::new(),
            stacks: BTreeMap::new(),
        }
    }

    /// Adds a weight to a stack, whose frames come with the outermost caller first.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, weight: u64) {
        let mut stack = String::new();
        for frame in frames {
            if !stack.is_empty() {
                stack.push(BETWEEN_FRAMES);
            }
            // A name that holds the separator would become two frames.
            stack.extend(frame.chars().map(|letter| match letter {
                BETWEEN_FRAMES => ':',
                letter if letter.is_control() => ' ',
                letter => letter,
            }));
        }
        let known = self.stacks.entry(stack).or_default();
        *known = known.saturating_add(weight);
    }

    /// Adds all stacks and samples of another recording with the same tool.
    pub fn merge(&mut self, other: &Profile) {
        for (stack, weight) in other.folded() {
            let known = self.stacks.entry(stack.to_owned()).or_default();
            *known = known.saturating_add(weight);
        }
        self.samples = self.samples.zip(other.samples).map(|(a, b)| a + b);
    }

    /// Every stack once, with its weight: frames joined by `;`.
    pub fn folded(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks
            .iter()
            .map(|(stack, weight)| (stack.as_str(), *weight))
    }

    /// Every stack once, as its frames, and its weight.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        self.folded()
            .map(|(stack, weight)| (stack.split(BETWEEN_FRAMES).collect(), weight))
    }

    /// The weight of all stacks together.
    pub fn total(&self) -> u64 {
        self.stacks
            .values()
            .fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// As text of folded stacks: a stack, a blank, its weight; one line each.
impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stack, weight) in self.folded() {
            writeln!(out, "{stack} {weight}")?;
        }
        Ok(())
    }
}

impl ProfileTool {
    /// What it cannot see, as a sentence, if that is known.
    pub fn blind_spot(self) -> Option<&'static str> {
        match self {
            ProfileTool::V8 => Some(
                "V8's profiler sees JavaScript functions only: what the runtime does for a function is in the \
                 function that called it, in '(program)' or in '(garbage collector)'. Its times go on while the \
                 program waits for a processor.",
            ),
            ProfileTool::Perf | ProfileTool::Folded => None,
        }
    }
}

/// What a run of its own, which was recorded and never timed, gave for one case under one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The case.
    pub case: Case,
    /// The name of the variant.
    pub variant: String,
    /// What was recorded.
    pub profile: Recorded,
}

/// A profile, or the lack of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recorded {
    /// Where the time went. Shared, because parts of a session are copied.
    Taken(Arc<Profile>),
    /// Why there is none, as the end of a sentence.
    Missing(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_the_same_stack_add_up_and_the_text_is_folded() {
        let mut profile = Profile::new(ProfileTool::Perf, WeightUnit::Nanoseconds);
        profile.add(["main", "work"], 3);
        profile.add(["main", "idle"], 1);
        profile.add(["main", "work"], 4);
        assert_eq!(profile.to_string(), "main;idle 1\nmain;work 7\n");
        assert_eq!(profile.total(), 8);
    }

    #[test]
    fn a_name_with_the_separator_stays_one_frame() {
        let mut profile = Profile::new(ProfileTool::Perf, WeightUnit::Unknown);
        profile.add(["main", "Lorg/Foo;::run"], 1);
        assert_eq!(
            profile.stacks().next().unwrap().0,
            ["main", "Lorg/Foo:::run"]
        );
    }
}
