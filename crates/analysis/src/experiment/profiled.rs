//! Which cases of an experiment are recorded, under which variants, with how much work.

use super::Found;
use super::gate::fits;
use speedwell_model::{Case, Session, Verdict, median};
use speedwell_suite::experiment::{Experiment, Group, Kind, Profile, When};

/// Requests of a recorded load are what the baseline served in so many seconds while it was timed: some two
/// thousand samples for every processor that it kept busy.
pub const SECONDS_OF_REQUESTS: f64 = 2.0;

/// A case and two variants whose profiles are to be set against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedProfile {
    /// The case.
    pub case: Case,
    /// The variant that is the reference, and the other one.
    pub pair: (String, String),
}

/// What `[profile]` selects, in the order of the file, once everything is measured. Cases of benchmark files are
/// never among them.
pub fn wanted_profiles(
    found: &Found,
    experiment: &Experiment,
    profile: &Profile,
) -> Vec<WantedProfile> {
    let groups = experiment.groups.iter();
    let cases = groups
        .filter(|group| group.kind != Kind::Function)
        .flat_map(|group| group.cases.iter().map(move |case| (group, case)));
    let each = cases.flat_map(|(group, case)| {
        let pairs = profile.pairs.iter();
        let meant = pairs.filter(move |pair| is_meant(&profile.when, found, group, case, pair));
        meant.map(move |pair| WantedProfile {
            case: case.clone(),
            pair: pair.clone(),
        })
    });
    each.collect()
}

fn is_meant(
    when: &When,
    found: &Found,
    group: &Group,
    case: &Case,
    pair: &(String, String),
) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Verdict { verdict, equal } => {
            (verdict_of(found, group, case, pair) == *verdict) == *equal
        }
        When::Cells(cells) => cells.iter().any(|filter| fits(filter, &group.name, case)),
    }
}

/// The verdict of the headline metric. What was not compared, or could not be, is unclear.
fn verdict_of(found: &Found, group: &Group, case: &Case, pair: &(String, String)) -> Verdict {
    let group = found.groups.iter().find(|known| known.name == group.name);
    let headline = group.and_then(|group| group.metrics.first());
    let comparisons = headline.map(|metric| metric.findings.comparisons.as_slice());
    let of_pair = comparisons
        .unwrap_or_default()
        .iter()
        .find(|comparison| comparison.baseline == pair.0 && comparison.candidate == pair.1);
    let rows = of_pair.map(|comparison| comparison.rows.as_slice());
    let row = rows
        .unwrap_or_default()
        .iter()
        .find(|row| *row.case == *case);
    row.map_or(Verdict::Unclear, |row| row.verdict)
}

/// The number of requests that a recorded load of this case has, by what the timed runs of the baseline served;
/// those of any variant if it has none.
pub fn requests_of(session: &Session, case: &Case, baseline: &str) -> Option<u64> {
    let rates = |is_meant: &dyn Fn(&str) -> bool| -> Option<f64> {
        let runs = session.runs.iter();
        let meant = runs.filter(|run| *run.case == *case && is_meant(&run.variant));
        let rates = meant.filter_map(|run| {
            run.value_of("throughput")
                .or_else(|| run.value_of("requests_per_second"))
        });
        let mut rates: Vec<f64> = rates.filter(|rate| rate.is_finite()).collect();
        median(&mut rates)
    };
    let rate = rates(&|variant| variant == baseline).or_else(|| rates(&|_| true))?;
    Some((rate * SECONDS_OF_REQUESTS).ceil() as u64)
}
