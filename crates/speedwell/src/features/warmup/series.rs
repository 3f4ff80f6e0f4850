//! Changes plans so that they record each run as a time series from its first iteration on, for
//! `speedwell warmup` and for the option `--steady` ([`plan_series`]).
//!
//! First, every case is run once to find out how long an iteration takes; this run is discarded.
//! The module then decides how many iterations make one point of a series, and how many points a
//! process records. `analysis::warmup` decides when a series is steady.

use anyhow::{Context, bail, ensure};
use speedwell_adapters::{self as adapters, BenchmarkJob, SourceKind};
use speedwell_analysis::AnalysisSettings;
use speedwell_engine::execution::{ExecuteOptions, SessionEnd, execute};
use speedwell_engine::{AnalysisStoppingRule, EventListener, PreparedPlan};
use speedwell_machine::process::{self, InterruptedEarly};
use speedwell_model::{
    Metric, Run, RunOrder, SampleDivision, SampleLength, SessionEvent, SessionObserver, SteadyRule,
    StoppingDesign, quote,
};
use std::time::Duration;

/// Length of a process's series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesLength {
    /// 2000 points, or fewer if 2000 would take more than half a minute.
    Usual,
    /// This many iterations.
    Iterations(u64),
    /// As many iterations as take about this long.
    Time(Duration),
}

/// Number of points of a default series, as in Barrett et al., OOPSLA 2017.
const DEFAULT_POINTS: u64 = 2000;
/// Longest duration of a default series.
const MAX_DEFAULT_TIME: Duration = Duration::from_secs(30);
/// Maximum number of points of a series. In longer series, every point covers more iterations.
const MAX_POINTS: u64 = 100_000;
/// Minimum number of points to find a change of level.
const MIN_POINTS: u64 = 50;
/// Minimum duration of a point, so that occasional interrupts do not dominate it.
const MIN_POINT_NS: f64 = 1e6;
/// Minimum duration of a point if the user requests few iterations. In shorter points, reading the
/// clock would take too large a share.
const MIN_SHORT_POINT_NS: f64 = 50e3;
/// If the user requests few iterations, a single iteration may be a point if it takes longer than
/// this.
const SINGLE_POINT_NS: f64 = 20e3;

/// Turns every run of the plan into a series of the given length. `rule` finds the steady part.
///
/// # Errors
/// Fails if a case has its own loop, if processes do not run one at a time, if the series is too
/// short, or if the user interrupts the discarded runs.
pub fn plan_series(
    mut plans: PreparedPlan,
    length: SeriesLength,
    rule: SteadyRule,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<PreparedPlan> {
    for job in &plans.plan.jobs {
        check_records_series(job)?;
    }
    ensure!(
        matches!(plans.plan.design.order, RunOrder::Blocks | RunOrder::Alternate)
            && !plans.plan.shared,
        "--order cannot be combined with recording series: every process must run alone\nhint: leave \
         out --order"
    );
    let runs = measure_iteration_times(&plans, listener)?;
    for job in &mut plans.plan.jobs {
        let name = job.label.clone();
        let job_runs = runs.iter().filter(|run| run.case.id() == name);
        // Use the fastest sample, because a busy machine only makes samples longer.
        let samples = job_runs.flat_map(|run| &run.samples);
        let rates = samples.filter(|sample| *sample.metric == *Metric::THROUGHPUT);
        let time_ns = rates.map(|sample| 1e9 / sample.value).fold(f64::INFINITY, f64::min);
        if time_ns.is_finite() {
            let samples = divide_series(length, time_ns).with_context(|| format!("in '{name}'"))?;
            job.samples = Some(samples);
        }
    }
    plans.plan.design.steady = Some(rule);
    let (count, iterations) = match length {
        SeriesLength::Iterations(count) => {
            (count.clamp(1, MAX_POINTS), count.div_ceil(MAX_POINTS).max(1))
        }
        _ => (DEFAULT_POINTS, 1),
    };
    plans.plan.sampling.samples = divide_evenly(count, iterations);
    Ok(plans)
}

fn divide_evenly(count: u64, iterations: u64) -> SampleDivision {
    let length = SampleLength::Iterations(iterations);
    SampleDivision { count: count as u32, length, warmup_ns: 0 }
}

fn check_records_series(job: &BenchmarkJob) -> anyhow::Result<()> {
    let kind = job.source.kind;
    if kind.records_series() {
        return Ok(());
    }
    let name = &job.source.name;
    let hint = match kind {
        SourceKind::Node | SourceKind::NodeCore => {
            "\nhint: speedwell warmup --code node 'CODE' measures code in Speedwell's loop"
        }
        SourceKind::Suite => {
            "\nhint: a C++ file that includes speedwell.hpp uses Speedwell's loop: create one with \
             'speedwell new suite'"
        }
        _ => "",
    };
    bail!("'{}' has its own loop, so its first iterations cannot be recorded{hint}", quote(name))
}

/// Runs every case and variant once to find out how long iterations take.
fn measure_iteration_times(
    plans: &PreparedPlan,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<Vec<Run>> {
    listener.observe(&SessionEvent::Note("measuring how long iterations take"))?;
    let mut plan = plans.plan.clone();
    plan.design.stopping = StoppingDesign::Fixed { runs: 1 };
    plan.design.runs_per_block = 1;
    plan.sampling.samples = SampleDivision::default();
    let options = ExecuteOptions {
        time_budget: plan.sampling.budget_ms.map(Duration::from_millis),
        ..ExecuteOptions::default()
    };
    let mut stopping_rule = AnalysisStoppingRule::new(&plan, &AnalysisSettings::default());
    let mut collector = RunCollector::default();
    let ended = execute(&plan, options, &mut stopping_rule, &mut [&mut collector]);
    adapters::remove_builds();
    process::clear_interrupt();
    if ended? == SessionEnd::Complete { Ok(collector.0) } else { Err(InterruptedEarly.into()) }
}

/// Keeps the discarded runs until their times are known. Ignores failures, which are reported when
/// the measured runs fail, too.
#[derive(Default)]
struct RunCollector(Vec<Run>);

impl SessionObserver for RunCollector {
    fn observe(&mut self, event: &SessionEvent<'_>) -> anyhow::Result<()> {
        if let SessionEvent::RunFinished(run) = event {
            self.0.push((*run).clone());
        }
        Ok(())
    }
}

/// Decides how many points a series has, and how many iterations make one point. An iteration takes
/// `time_ns`.
fn divide_series(length: SeriesLength, time_ns: f64) -> anyhow::Result<SampleDivision> {
    let iterations_lasting = |ns: f64| (ns / time_ns).ceil().max(1.0) as u64;
    let (iterations, count) = match length {
        SeriesLength::Usual => {
            let iterations = iterations_lasting(MIN_POINT_NS);
            let max_points = MAX_DEFAULT_TIME.as_nanos() as f64 / (iterations as f64 * time_ns);
            (iterations, DEFAULT_POINTS.min(max_points as u64).max(MIN_POINTS))
        }
        SeriesLength::Time(time) => {
            let total_ns = time.as_nanos() as f64;
            let iterations = iterations_lasting(MIN_POINT_NS.max(total_ns / MAX_POINTS as f64));
            let count = (total_ns / (iterations as f64 * time_ns)) as u64;
            (iterations, count.min(MAX_POINTS))
        }
        SeriesLength::Iterations(total) => {
            let min_iterations =
                if time_ns < SINGLE_POINT_NS { iterations_lasting(MIN_SHORT_POINT_NS) } else { 1 };
            let iterations = iterations_lasting(MIN_POINT_NS)
                .min(total / DEFAULT_POINTS)
                .max(min_iterations)
                .max(total.div_ceil(MAX_POINTS));
            (iterations, total / iterations)
        }
    };
    ensure!(
        count >= MIN_POINTS,
        "a series of {count} points is too short to detect a change: expected at least {MIN_POINTS} \
         points of {iterations} iterations each\nhint: --iterations {} or more, or a longer --time",
        MIN_POINTS * iterations
    );
    Ok(divide_evenly(count, iterations))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(length: SeriesLength, time_ns: f64) -> (u32, u64) {
        let samples = divide_series(length, time_ns).unwrap();
        match samples.length {
            SampleLength::Iterations(iterations) => (samples.count, iterations),
            SampleLength::TimeNs(_) => panic!("{samples:?}"),
        }
    }

    #[test]
    fn a_default_series_has_2000_points_unless_iterations_are_slow() {
        let usual = |ns| divide(SeriesLength::Usual, ns);
        assert_eq!(usual(100.0), (2000, 10_000));
        assert_eq!(usual(400e3), (2000, 3));
        assert_eq!(usual(5e6), (2000, 1));
        assert_eq!(usual(100e6), (300, 1));
        assert_eq!(usual(10e9), (50, 1), "fewer would say nothing");
    }

    #[test]
    fn points_cover_exactly_the_requested_iterations() {
        let of = |all, ns| divide(SeriesLength::Iterations(all), ns);
        assert_eq!(of(2000, 5e6), (2000, 1));
        assert_eq!(
            of(2000, 300e3),
            (2000, 1),
            "points may be short where there are few iterations"
        );
        assert_eq!(of(20_000, 300e3), (5000, 4));
        assert_eq!(of(500_000, 1e3), (2000, 250));
        assert_eq!(of(100_000, 1e3), (2000, 50), "no point is shorter than 50 us");
        assert_eq!(of(1_000_000, 2e6), (100_000, 10), "there are no more than 100 000 points");
    }

    #[test]
    fn a_requested_time_is_filled_with_points() {
        let of = |s, ns| divide(SeriesLength::Time(Duration::from_secs(s)), ns);
        assert_eq!(of(10, 5e6), (2000, 1));
        assert_eq!(of(10, 1e3), (10_000, 1000));
        assert_eq!(of(1000, 1e3), (100_000, 10_000));
    }

    #[test]
    fn a_too_short_series_is_refused_with_the_required_length() {
        let told = divide_series(SeriesLength::Iterations(1000), 100.0).unwrap_err().to_string();
        assert!(told.contains("points of 500 iterations each"), "{told}");
        assert!(told.ends_with("hint: --iterations 25000 or more, or a longer --time"), "{told}");
    }
}
