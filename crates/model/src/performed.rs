//! What one run of an experiment gave: its figures, or the stage at which it failed. Plain data that travels as
//! JSON from the process that performed it. Start at [`Performed`].

use super::{Metric, Sample};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Performed {
    /// Its figures, in the order in which they are reported.
    pub figures: Vec<Measure>,
    /// What a reader of the figures should know, as whole sentences.
    pub notes: Vec<String>,
    /// Why the run failed, if it did. What was measured before its end is kept only if nothing but its end failed.
    pub failure: Option<StageFailure>,
}

impl Performed {
    /// Adds a figure with one value.
    pub fn tell(&mut self, metric: Metric, value: f64) {
        self.figures.push(Measure::new(metric, vec![value]));
    }

    /// Adds a figure with the value of a sample, and what the sample was counted over.
    pub fn tell_sample(&mut self, metric: Metric, sample: &Sample) {
        self.figures.push(Measure {
            elapsed_ns: sample.elapsed_ns,
            iterations: sample.iterations,
            ..Measure::new(metric, vec![sample.value])
        });
    }
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What it is.
    pub metric: Metric,
    /// Its values, in the metric's unit.
    pub values: Vec<f64>,
    /// How long it was measured, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// What was counted meanwhile, where it is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
}

impl Measure {
    /// A figure of which nothing but its values is known.
    pub fn new(metric: Metric, values: Vec<f64>) -> Measure {
        Measure {
            metric,
            values,
            elapsed_ns: None,
            iterations: None,
        }
    }
}

/// Where and why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailure {
    /// Where.
    pub stage: Stage,
    /// Why, as the end of a sentence about the stage.
    pub reason: String,
    /// The last lines that the target wrote on stderr.
    pub stderr_tail: String,
}

/// The stages in the life of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The port is free.
    Port,
    /// The target starts.
    Start,
    /// It listens itself, answers, and has its children.
    Ready,
    /// The variant took effect.
    Proof,
    /// It answers as it should, before the load.
    Verify,
    /// The load that does not count.
    Warmup,
    /// A tool records where its time goes.
    Profile,
    /// The load that counts.
    Load,
    /// Every request of the load was answered well.
    Served,
    /// It still answers as it should, after the load.
    VerifyAgain,
    /// It lives, and no child of it was replaced.
    Alive,
    /// What it gave was understood.
    Figures,
    /// It ends when it is asked to, and leaves nothing behind.
    Stop,
    /// The variant took effect, which is known only at the end.
    ProofAtExit,
}

impl Stage {
    /// Whether the figures of a run that failed here are sound.
    pub fn is_after_the_figures(self) -> bool {
        self == Stage::Stop
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Stage::Port => "port",
            Stage::Start => "start",
            Stage::Ready => "ready",
            Stage::Proof => "proof of the variant",
            Stage::Verify => "verify",
            Stage::Warmup => "warmup",
            Stage::Profile => "profile",
            Stage::Load => "load",
            Stage::Served => "served",
            Stage::VerifyAgain => "verify after the load",
            Stage::Alive => "alive",
            Stage::Figures => "figures",
            Stage::Stop => "stop",
            Stage::ProofAtExit => "proof of the variant at exit",
        })
    }
}
