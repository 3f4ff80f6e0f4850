//! Determines which processes reach a steady state, when, and at what cost.
//!
//! A run is a series of points that begins with its first iteration. Each run is reduced to three
//! figures (steady time, time to the steady part, and total time), so that the usual tests can
//! compare variants. Start at [`analyze_warmup`]; `steady.rs` classifies a single series.

mod steady;
#[cfg(test)]
mod tests;

pub use steady::{
    ClassifiedSeries, ClassifierLimits, LevelDelta, ReferenceTimes, SteadyLevel, SteadySearch,
    WarmupClass, classify_published, classify_series,
};

use crate::gate::{self, FailOn, GateOutcome};
use crate::warnings::format_count;
use crate::{AnalysisFindings, AnalysisSettings};
use speedwell_model::{
    Case, ComparedClock, Metric, MetricDirection, Run, Sample, Session, SessionDesign, SteadyRule,
};
use speedwell_stats::describe::median;
use std::fmt;
use std::sync::Arc;

/// Median time per iteration in the steady part.
pub const STEADY_TIME: &str = "steady_time";
/// Time from the first iteration to the end of the first steady point.
pub const TIME_TO_STEADY: &str = "time_to_steady";
/// Total time of all points.
pub const TOTAL_TIME: &str = "total";
/// A gate (a pass/fail check) uses a case only if at least this fraction of its processes is in the
/// same class.
pub const MIN_GATE_AGREEMENT: f64 = 0.8;

/// Findings of a session whose runs are series.
#[derive(Debug, Clone)]
pub struct WarmupFindings {
    /// Rule that says when a series is steady.
    pub rule: SteadyRule,
    /// Clock whose times were analyzed.
    pub clock: ComparedClock,
    /// One entry per case and variant, by first appearance.
    pub cases: Vec<CaseWarmup>,
    /// The three figures of all processes, summarized and compared.
    pub findings: AnalysisFindings,
}

impl WarmupFindings {
    /// Judges the figures; `None` if no gate was requested. Cases whose processes disagree are
    /// ignored.
    pub fn judge_gate(&self, fail_on: FailOn) -> Option<GateOutcome> {
        let agreed: Vec<&CaseWarmup> =
            self.cases.iter().filter(|warmup| warmup.has_agreement()).collect();
        let is_agreed = |case: &Case, variant: &str| {
            self.case_warmup(case, variant).is_some_and(CaseWarmup::has_agreement)
        };
        let mut findings = self.findings.clone();
        for comparison in &mut findings.comparisons {
            let sides = [&comparison.baseline, &comparison.candidate];
            (comparison.rows).retain(|row| sides.iter().all(|side| is_agreed(&row.case, side)));
        }
        let mut outcome = gate::judge_findings(&findings, fail_on, None)?;
        if findings.comparisons.is_empty() {
            // With a single variant, there is nothing to compare. The gate then checks whether the
            // variant becomes steady.
            outcome.obstacles.retain(|obstacle| obstacle != gate::NOTHING_TO_COMPARE);
            outcome.judged =
                format!("{} by steady state", format_count(agreed.len(), "case", "cases"));
            if agreed.is_empty() {
                outcome.obstacles.push("no case has processes that agree".to_owned());
            }
        }
        let never_steady = agreed.iter().filter(|warmup| warmup.is_never_steady()).count();
        if never_steady > 0 {
            outcome.failing.push(format!("{never_steady} without steady state"));
        }
        let disagreeing = self.cases.len() - agreed.len();
        if disagreeing > 0 {
            let left_out = format!("{disagreeing} left out because the processes do not agree");
            outcome.remarks.push(left_out);
        }
        Some(outcome)
    }

    /// Comparison of one of the three figures of a case, for a candidate.
    pub fn case_comparison(
        &self,
        metric: &str,
        case: &Case,
        candidate: &str,
    ) -> Option<&crate::CaseComparison> {
        let comparisons = self.findings.comparisons.iter().filter(|comparison| {
            comparison.metric.name == metric && comparison.candidate == candidate
        });
        comparisons.flat_map(|comparison| &comparison.rows).find(|row| *row.case == *case)
    }

    /// Results of a case under a variant.
    pub fn case_warmup(&self, case: &Case, variant: &str) -> Option<&CaseWarmup> {
        find_case(&self.cases, case, variant)
    }
}

fn find_case<'a>(cases: &'a [CaseWarmup], case: &Case, variant: &str) -> Option<&'a CaseWarmup> {
    cases.iter().find(|warmup| *warmup.case == *case && *warmup.variant == *variant)
}

/// A case under one variant.
#[derive(Debug, Clone)]
pub struct CaseWarmup {
    /// The case.
    pub case: Arc<Case>,
    /// The variant.
    pub variant: Arc<str>,
    /// Iterations per point.
    pub iterations: f64,
    /// Its processes, in execution order.
    pub processes: Vec<ProcessWarmup>,
}

/// One process.
#[derive(Debug, Clone)]
pub struct ProcessWarmup {
    /// Position in execution order.
    pub slot: u32,
    /// Time per iteration of each point, in nanoseconds.
    pub times_ns: Vec<f64>,
    /// Result of the search for a steady part.
    pub search: SteadySearch,
    /// Number of executions of the reference loop.
    pub reference: usize,
    /// Class that the published classifier ([`classify_published`]) assigns.
    pub compat: WarmupClass,
    /// Total time of all points, in nanoseconds.
    pub total_ns: f64,
    /// Median time per iteration in the steady part, in nanoseconds.
    pub steady_ns: Option<f64>,
    /// Time to the end of the first steady point, in nanoseconds.
    pub to_steady_ns: Option<f64>,
}

/// Joint class of the processes of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmupAgreement {
    /// All in the same class.
    All(WarmupClass),
    /// Some flat, some warming up.
    MixedGood,
    /// Any other mix.
    MixedBad,
}

impl fmt::Display for WarmupAgreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WarmupAgreement::All(class) => class.fmt(out),
            WarmupAgreement::MixedGood => out.pad("mixed, good"),
            WarmupAgreement::MixedBad => out.pad("mixed, bad"),
        }
    }
}

impl CaseWarmup {
    /// Joint class of the processes.
    pub fn agreement(&self) -> WarmupAgreement {
        let classes = || self.processes.iter().map(|process| process.search.class);
        let is_good = |class: WarmupClass| matches!(class, WarmupClass::Flat | WarmupClass::WarmUp);
        match classes().next() {
            Some(first) if classes().all(|class| class == first) => WarmupAgreement::All(first),
            _ if classes().all(is_good) => WarmupAgreement::MixedGood,
            _ => WarmupAgreement::MixedBad,
        }
    }

    /// Number of processes in each class that occurs.
    pub fn count_classes(&self) -> Vec<(WarmupClass, usize)> {
        let count = |class: WarmupClass| {
            let in_class = self.processes.iter().filter(|process| process.search.class == class);
            (class, in_class.count())
        };
        let counts = WarmupClass::ALL.into_iter().map(count);
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Whether every process has a steady part.
    pub fn is_steady(&self) -> bool {
        self.processes.iter().all(|process| process.search.class.is_steady())
    }

    /// Whether so many processes are known to have no steady part that a gate fails.
    pub fn is_never_steady(&self) -> bool {
        let is_unsteady = |process: &ProcessWarmup| {
            matches!(process.search.class, WarmupClass::Cyclic | WarmupClass::NoSteadyState)
        };
        let unsteady_count = self.processes.iter().filter(|process| is_unsteady(process)).count();
        unsteady_count as f64 >= MIN_GATE_AGREEMENT * self.processes.len() as f64
    }

    /// Whether enough processes agree for a gate to use the case.
    pub fn has_agreement(&self) -> bool {
        let max_count = self.count_classes().into_iter().map(|(_, count)| count).max();
        max_count.unwrap_or(0) as f64 >= MIN_GATE_AGREEMENT * self.processes.len() as f64
    }

    /// Median of a figure over the processes; `None` unless all processes have the figure.
    pub fn median_over_processes(
        &self,
        figure: impl Fn(&ProcessWarmup) -> Option<f64>,
    ) -> Option<f64> {
        let values: Option<Vec<f64>> = self.processes.iter().map(figure).collect();
        values.filter(|values| !values.is_empty()).map(|values| median(&values))
    }

    /// Two times in nanoseconds. The first is the extra time of the iterations up to the first
    /// steady point, compared with as many steady iterations. The second is the time of one steady
    /// iteration.
    fn start_and_steady_cost(&self) -> Option<(f64, f64)> {
        let extra = |process: &ProcessWarmup| {
            let first = process.search.first_steady_point()? as f64 + 1.0;
            Some(process.to_steady_ns? - first * self.iterations * process.steady_ns?)
        };
        Some((
            self.median_over_processes(extra)?,
            self.median_over_processes(|process| process.steady_ns)?,
        ))
    }
}

/// Number of iterations after which two variants have taken equally long, if one variant starts
/// faster and the other is faster in the steady state.
pub fn break_even(baseline: &CaseWarmup, candidate: &CaseWarmup) -> Option<f64> {
    let ((start, steady), (other_start, other_steady)) =
        (baseline.start_and_steady_cost()?, candidate.start_and_steady_cost()?);
    let iterations = (other_start - start) / (steady - other_steady);
    (iterations.is_finite() && iterations > 0.0).then_some(iterations)
}

/// Analyzes a session whose runs are series; `rule` says when a series is steady.
pub fn analyze_warmup(
    session: &Session,
    rule: &SteadyRule,
    settings: &AnalysisSettings,
) -> WarmupFindings {
    let has_cpu = |run: &Run| times_of(&run.samples, ComparedClock::Cpu).is_some();
    let is_cpu = rule.clock != Some(ComparedClock::Wall) && session.runs.iter().all(has_cpu);
    let clock = if is_cpu { ComparedClock::Cpu } else { ComparedClock::Wall };
    let mut cases: Vec<CaseWarmup> = Vec::new();
    for run in &session.runs {
        let Some((process, iterations)) = analyze_process(run.slot, &run.samples, clock, rule)
        else {
            continue;
        };
        let is_of_run =
            |warmup: &&mut CaseWarmup| warmup.case == run.case && warmup.variant == run.variant;
        match cases.iter_mut().find(is_of_run) {
            Some(warmup) => warmup.processes.push(process),
            None => cases.push(CaseWarmup {
                case: run.case.clone(),
                variant: run.variant.clone(),
                iterations,
                processes: vec![process],
            }),
        }
    }
    let settings = AnalysisSettings {
        metrics: warmup_metrics().map(|metric| metric.name).to_vec(),
        ..settings.clone()
    };
    let ids: Vec<String> = cases.iter().map(|warmup| warmup.case.id()).collect();
    cases.sort_by_key(|warmup| {
        let id = warmup.case.id();
        let mut variants = session.variants.iter();
        let variant = variants.position(|variant| variant.name == *warmup.variant);
        (ids.iter().position(|case_id| *case_id == id), variant)
    });
    let mut findings = crate::analyze_session(&figures_session(session, &cases), &settings);
    if rule.clock == Some(ComparedClock::Cpu) && clock == ComparedClock::Wall {
        let sentence = "Processor time is not available for every point, so wall-clock time is \
            shown.";
        findings.warnings.push(sentence.into());
    }
    WarmupFindings { rule: *rule, clock, findings, cases }
}

/// Time per iteration in the steady part of a run that was recorded as a series.
///
/// # Errors
/// Returns the class of a run without a steady part, or `Unclear` if the run is not a series.
pub fn steady_time(samples: &[Sample], rule: &SteadyRule) -> Result<Sample, WarmupClass> {
    let clocks = match rule.clock {
        Some(ComparedClock::Wall) => [ComparedClock::Wall; 2],
        _ => [ComparedClock::Cpu, ComparedClock::Wall],
    };
    let analyzed = clocks.into_iter().find_map(|clock| analyze_process(0, samples, clock, rule));
    let (process, _) = analyzed.ok_or(WarmupClass::Unclear)?;
    Ok(Sample::plain(STEADY_TIME, process.steady_ns.ok_or(process.search.class)?))
}

/// The three figures as metrics.
pub fn warmup_metrics() -> [Metric; 3] {
    [STEADY_TIME, TIME_TO_STEADY, TOTAL_TIME]
        .map(|name| Metric::new(name, "ns", MetricDirection::Lower))
}

/// Time per iteration of each point, and the number of iterations per point. `None` if the clock
/// does not have a time for every point.
fn times_of(samples: &[Sample], clock: ComparedClock) -> Option<(Vec<f64>, f64)> {
    let samples_of = |name: &str| -> Vec<&Sample> {
        samples.iter().filter(|sample| *sample.metric == *name).collect()
    };
    let points = samples_of(Metric::THROUGHPUT);
    let iterations = points.first()?.iterations?;
    let times: Vec<f64> = match clock {
        ComparedClock::Wall => points.iter().map(|point| 1e9 / point.value).collect(),
        ComparedClock::Cpu => {
            samples_of(Metric::CPU_TIME).iter().map(|sample| sample.value).collect()
        }
    };
    (times.len() == points.len()).then_some((times, iterations))
}

fn analyze_process(
    slot: u32,
    samples: &[Sample],
    clock: ComparedClock,
    rule: &SteadyRule,
) -> Option<(ProcessWarmup, f64)> {
    let (times_ns, iterations) = times_of(samples, clock)?;
    let reference = samples.iter().filter(|sample| *sample.metric == *Metric::REFERENCE_TIME);
    let reference: Vec<f64> = reference.map(|sample| sample.value).collect();
    let reference =
        ReferenceTimes { times: &reference, every: SteadyRule::REFERENCE_EVERY as usize };
    let search = classify_series(&times_ns, rule, Some(reference));
    let seconds: Vec<f64> = times_ns.iter().map(|ns| ns * iterations / 1e9).collect();
    let limits = ClassifierLimits { steady: times_ns.len() / 4, ..ClassifierLimits::default() };
    let sum = |times: &[f64]| times.iter().sum::<f64>() * iterations;
    let first = search.first_steady_point();
    Some((
        ProcessWarmup {
            slot,
            reference: reference.times.len(),
            compat: classify_published(&seconds, &limits).class,
            total_ns: sum(&times_ns),
            steady_ns: first.map(|first| median(&times_ns[first..])),
            to_steady_ns: first.map(|first| sum(&times_ns[..=first])),
            search,
            times_ns,
        },
        iterations,
    ))
}

/// Replaces the points of every run by the three figures. Omits the steady figures of a case under
/// a variant if one of its processes has no steady part, because the other processes would be a
/// biased selection.
fn figures_session(session: &Session, cases: &[CaseWarmup]) -> Session {
    let [steady, start, total] = warmup_metrics();
    let reduce_run = |run: &Run| {
        let case = find_case(cases, &run.case, &run.variant)?;
        let process = case.processes.iter().find(|process| process.slot == run.slot)?;
        let is_steady = case.is_steady();
        let values = [
            (&steady, process.steady_ns.filter(|_| is_steady)),
            (&start, process.to_steady_ns.filter(|_| is_steady)),
            (&total, Some(process.total_ns)),
        ];
        let sample =
            |(metric, value): (&Metric, Option<f64>)| Some(Sample::plain(&metric.name, value?));
        Some(Run { samples: values.into_iter().filter_map(sample).collect(), ..run.clone() })
    };
    Session {
        runs: session.runs.iter().filter_map(reduce_run).collect(),
        metrics: warmup_metrics().to_vec(),
        failures: session.failures.clone(),
        design: SessionDesign { steady: None, ..session.design.clone() },
        ..session.with_runs(|_| false)
    }
}
