//! The times of a load: which quantities, of which requests. Which of them are reported, and how exactly, is decided in
//! [`super::trust`].

use super::trust::Trust;
use crate::model::load_run::LoadRun;
use speedwell_load::latency::{
    AB_PERCENTS, Bin, ByOutcome, Distribution, Kind, OpenTimes, Outcome, Punctual, Quantile,
    ServiceTimes, Timed, bounds_agree,
};
use speedwell_load::measured::Latency;

/// The percentiles that are told, in millionths: ab's, and two further nines before the maximum.
pub const PERCENTILES_PPM: [u32; AB_PERCENTS.len() + 2] = [
    500_000, 660_000, 750_000, 800_000, 900_000, 950_000, 980_000, 990_000, 999_000, 999_900,
    1_000_000,
];

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Making a connection.
    Connect,
    /// From sending to the first byte.
    FirstByte,
    /// From sending to the last byte.
    Service,
    /// From the intended start to the last byte.
    Response,
    /// From the intended start to sending.
    Lag,
}

impl Quantity {
    /// The name in files and conditions.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Connect => "connect",
            Quantity::FirstByte => "first-byte",
            Quantity::Service => "service",
            Quantity::Response => "response",
            Quantity::Lag => "lag",
        }
    }

    /// Every quantity.
    pub const ALL: [Quantity; 5] = [
        Quantity::Connect,
        Quantity::FirstByte,
        Quantity::Service,
        Quantity::Response,
        Quantity::Lag,
    ];
}

/// Of which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Those that were answered well.
    Ok,
    /// All, with lower bounds for those without an end.
    All,
}

impl Group {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Group::Ok => "ok",
            Group::All => "all",
        }
    }
}

/// Why a time is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The generator was late by itself, so the times are partly its own.
    GeneratorLimited,
    /// Too few of the due requests were sent to know the tail.
    RateMissed,
}

/// A time that is told or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Known, or known to be at least so long.
    Time(Quantile),
    /// Known to lie between the two: what the generator itself was late by is in the longer one only.
    Range {
        /// Less the generator's own lateness with each request.
        low: Quantile,
        /// From when each request was due.
        high: Quantile,
    },
    /// Measured, but not to be trusted.
    Refused(Refusal),
}

impl Told {
    /// The time in nanoseconds from when requests were due, unless it is refused.
    pub fn longest_ns(self) -> Option<u64> {
        match self {
            Told::Time(time) => Some(time.ns),
            Told::Range { high, .. } => Some(high.ns),
            Told::Refused(_) => None,
        }
    }
}

/// The percentiles of one quantity, of one group of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// What was timed.
    pub quantity: Quantity,
    /// Of which requests.
    pub group: Group,
    /// How many values there are.
    pub count: u64,
    /// Those of them that were not over when the load ended.
    pub lower_bounds: u64,
    /// One entry for each of [`PERCENTILES_PPM`].
    pub told: Vec<Told>,
    /// Percentages and times in nanoseconds to draw a line through, without what is refused.
    pub curve: Vec<(f64, u64)>,
}

/// Points of a curve, and the nines at which it ends if there are as many values: 99.999 %.
const CURVE_POINTS: u32 = 60;
const MOST_NINES: f64 = 5.0;

/// Shares in millionths, equally far from each other when drawn by nines. Beyond the last but one
/// value there is only the greatest, which is no percentile.
fn curve_ppm(count: u64) -> Vec<u32> {
    let nines = (count as f64).log10().min(MOST_NINES);
    let at = |point: u32| nines * f64::from(point) / f64::from(CURVE_POINTS);
    let ppm = |point| ((1.0 - 10f64.powf(-at(point))) * 1e6).round() as u32;
    (0..=CURVE_POINTS).map(ppm).collect()
}

/// The spread of one quantity, of one group of requests. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// What was timed.
    pub quantity: Quantity,
    /// Of which requests.
    pub group: Group,
    /// How many values there are.
    pub count: u64,
    /// Those of them that were not over when the load ended: if there are any, mean and greatest
    /// are lower bounds.
    pub lower_bounds: u64,
    /// The shortest.
    pub least_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The mean less the generator's own lateness, where that makes a difference.
    pub low_mean_ns: Option<f64>,
    /// Standard deviation of a sample.
    pub deviation_ns: Option<f64>,
    /// The median.
    pub median: Told,
    /// The longest.
    pub greatest: Told,
    /// Why what depends on all times, such as the mean, is not told.
    pub refusal: Option<Refusal>,
}

/// What is done with each distribution of a load.
pub(super) trait Visit {
    fn see<K: Kind>(&mut self, quantity: Quantity, group: Group, times: &Distribution<K>, low: Low);
}

/// The same times less the generator's own lateness, where that is a quantity of its own.
pub(super) type Low<'a> = Option<&'a Distribution<Punctual>>;

/// Shows every distribution of a load that holds values. The principal one, by which the load is
/// judged, comes first: what users of an open load would have waited, whatever became of their
/// requests; else what good answers took.
pub(super) fn visit(run: &LoadRun, visitor: &mut impl Visit) {
    let connect = run.measured.account.latency.connect();
    match &run.measured.account.latency {
        Latency::Closed(latency) => visit_sent(&latency.requests, |all| all, visitor),
        Latency::Open(latency) => {
            let (all, ok) = (latency.requests.all(), latency.requests.ok());
            let mut see = |group, times: &OpenTimes| {
                visitor.see(Quantity::Response, group, &times.response, times.low());
            };
            see(Group::All, &all);
            if all.response.count() > ok.response.count() {
                see(Group::Ok, ok);
            }
            visit_sent(&latency.requests, |times: &OpenTimes| &times.sent, visitor);
            visitor.see(Quantity::Lag, Group::All, &latency.lag, None);
        }
    }
    visitor.see(Quantity::Connect, Group::All, connect, None);
}

fn visit_sent<T: Timed>(
    requests: &ByOutcome<T>,
    sent: impl Fn(&T) -> &ServiceTimes,
    visitor: &mut impl Visit,
) {
    let ok = sent(requests.ok());
    visitor.see(Quantity::Service, Group::Ok, &ok.service, None);
    let others = requests
        .seen()
        .filter(|(outcome, set)| *outcome != Outcome::Ok && sent(set).service.count() > 0);
    if others.count() > 0 {
        let all = requests.all();
        visitor.see(Quantity::Service, Group::All, &sent(&all).service, None);
    }
    visitor.see(Quantity::FirstByte, Group::Ok, &ok.first_byte, None);
}

/// The percentiles of a load.
pub(super) fn served(run: &LoadRun, trust: &Trust) -> Vec<Served> {
    struct Collect<'a>(Vec<Served>, &'a Trust);
    impl Visit for Collect<'_> {
        fn see<K: Kind>(
            &mut self,
            quantity: Quantity,
            group: Group,
            times: &Distribution<K>,
            low: Low,
        ) {
            let told = self.1.all_told(quantity, &PERCENTILES_PPM, times, low);
            if !told.is_empty() {
                let ppm = curve_ppm(times.count());
                let points = ppm.iter().zip(self.1.all_told(quantity, &ppm, times, low));
                let told_points = points
                    .filter_map(|(ppm, told)| Some((f64::from(*ppm) / 1e4, told.longest_ns()?)));
                self.0.push(Served {
                    curve: told_points.collect(),
                    quantity,
                    group,
                    count: times.count(),
                    lower_bounds: times.lower_bounds(),
                    told,
                });
            }
        }
    }
    let mut collect = Collect(Vec::new(), trust);
    visit(run, &mut collect);
    collect.0
}

/// The spreads of a load.
pub(super) fn spreads(run: &LoadRun, trust: &Trust) -> Vec<Spread> {
    struct Collect<'a>(Vec<Spread>, &'a Trust);
    impl Visit for Collect<'_> {
        fn see<K: Kind>(
            &mut self,
            quantity: Quantity,
            group: Group,
            times: &Distribution<K>,
            low: Low,
        ) {
            self.0.extend(spread(quantity, group, times, low, self.1));
        }
    }
    let mut collect = Collect(Vec::new(), trust);
    visit(run, &mut collect);
    collect.0
}

fn spread<K: Kind>(
    quantity: Quantity,
    group: Group,
    times: &Distribution<K>,
    low: Low,
    trust: &Trust,
) -> Option<Spread> {
    let told = |ppm| trust.all_told(quantity, &[ppm], times, low).pop();
    let mean_ns = times.mean_ns()?;
    let low_mean_ns = low.and_then(Distribution::mean_ns);
    Some(Spread {
        quantity,
        group,
        count: times.count(),
        lower_bounds: times.lower_bounds(),
        least_ns: times.least_ns()?,
        mean_ns,
        low_mean_ns: low_mean_ns.filter(|low_ns| !bounds_agree(*low_ns, mean_ns)),
        deviation_ns: times.standard_deviation_ns(),
        median: told(500_000)?,
        greatest: told(1_000_000)?,
        refusal: trust.refusal_of_mean(quantity),
    })
}

/// The bins of one quantity and group.
pub(super) fn bins(run: &LoadRun, wanted: (Quantity, Group)) -> Vec<Bin> {
    struct Find(Vec<Bin>, (Quantity, Group));
    impl Visit for Find {
        fn see<K: Kind>(
            &mut self,
            quantity: Quantity,
            group: Group,
            times: &Distribution<K>,
            _: Low,
        ) {
            if (quantity, group) == self.1 {
                self.0 = times.bins().collect();
            }
        }
    }
    let mut find = Find(Vec::new(), wanted);
    visit(run, &mut find);
    find.0
}

/// One quantile of one quantity and group; `None` without values.
pub(super) fn told(
    run: &LoadRun,
    trust: &Trust,
    wanted: (Quantity, Group),
    ppm: u32,
) -> Option<Told> {
    struct Find<'a>(Option<Told>, (Quantity, Group), u32, &'a Trust);
    impl Visit for Find<'_> {
        fn see<K: Kind>(
            &mut self,
            quantity: Quantity,
            group: Group,
            times: &Distribution<K>,
            low: Low,
        ) {
            if (quantity, group) == self.1 {
                self.0 = self.3.all_told(quantity, &[self.2], times, low).pop();
            }
        }
    }
    let mut find = Find(None, wanted, ppm, trust);
    visit(run, &mut find);
    find.0
}
