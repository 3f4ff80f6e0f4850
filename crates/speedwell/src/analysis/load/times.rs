//! The times of a load: which quantities, of which requests, and which of them are not told.

use crate::model::load_run::LoadRun;
use speedwell_load::latency::{
    AB_PERCENTS, Bin, ByOutcome, Distribution, Kind, OpenTimes, OpenVerdict, Outcome, Quantile,
    ServiceTimes, Timed,
};
use speedwell_load::measured::Latency;

/// The percentiles that are told, in millionths: ab's, and two further nines before the maximum.
pub const PERCENTILES_PPM: [u32; AB_PERCENTS.len() + 2] = [
    500_000, 660_000, 750_000, 800_000, 900_000, 950_000, 980_000, 990_000, 999_000, 999_900,
    1_000_000,
];

/// From here on a percentile belongs to the tail, which a load that missed its rate does not tell.
const TAIL_PPM: u32 = 990_000;

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

impl Refusal {
    /// Whether a quantile of this quantity is told, given what the load's verdict is.
    fn of(verdict: Option<&OpenVerdict>, quantity: Quantity, ppm: u32) -> Option<Refusal> {
        let verdict = verdict?;
        match quantity {
            // The lag is the evidence itself, and connections are made by the operating system.
            Quantity::Lag | Quantity::Connect => None,
            _ if verdict.is_generator_limited() => Some(Refusal::GeneratorLimited),
            _ if verdict.is_rate_missed() && ppm >= TAIL_PPM => Some(Refusal::RateMissed),
            _ => None,
        }
    }
}

/// A time that is told or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Known, or known to be at least so long.
    Time(Quantile),
    /// Measured, but not to be trusted.
    Refused(Refusal),
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
    /// Standard deviation of a sample.
    pub deviation_ns: Option<f64>,
    /// The median.
    pub median: Quantile,
    /// The longest.
    pub greatest_ns: u64,
    /// Why the row is not told.
    pub refusal: Option<Refusal>,
    /// Why the longest is not told.
    pub tail_refusal: Option<Refusal>,
}

/// What is done with each distribution of a load.
pub(super) trait Visit {
    fn see<K: Kind>(&mut self, quantity: Quantity, group: Group, times: &Distribution<K>);
}

/// Shows every distribution of a load that holds values. The principal one, by which the load is
/// judged, comes first: what users of an open load would have waited, whatever became of their
/// requests; else what good answers took.
pub(super) fn visit(run: &LoadRun, visitor: &mut impl Visit) {
    let connect = run.measured.account.latency.connect();
    match &run.measured.account.latency {
        Latency::Closed(latency) => visit_sent(&latency.requests, |all| all, visitor),
        Latency::Open(latency) => {
            let (all, ok) = (latency.requests.all(), latency.requests.ok());
            visitor.see(Quantity::Response, Group::All, &all.response);
            if all.response.count() > ok.response.count() {
                visitor.see(Quantity::Response, Group::Ok, &ok.response);
            }
            visit_sent(&latency.requests, |times: &OpenTimes| &times.sent, visitor);
            visitor.see(Quantity::Lag, Group::All, &latency.lag);
        }
    }
    visitor.see(Quantity::Connect, Group::All, connect);
}

fn visit_sent<T: Timed>(
    requests: &ByOutcome<T>,
    sent: impl Fn(&T) -> &ServiceTimes,
    visitor: &mut impl Visit,
) {
    let ok = sent(requests.ok());
    visitor.see(Quantity::Service, Group::Ok, &ok.service);
    let others = requests
        .seen()
        .filter(|(outcome, set)| *outcome != Outcome::Ok && sent(set).service.count() > 0);
    if others.count() > 0 {
        visitor.see(
            Quantity::Service,
            Group::All,
            &sent(&requests.all()).service,
        );
    }
    visitor.see(Quantity::FirstByte, Group::Ok, &ok.first_byte);
}

/// The percentiles of a load.
pub(super) fn served(run: &LoadRun, verdict: Option<&OpenVerdict>) -> Vec<Served> {
    struct Collect<'a>(Vec<Served>, Option<&'a OpenVerdict>);
    impl Visit for Collect<'_> {
        fn see<K: Kind>(&mut self, quantity: Quantity, group: Group, times: &Distribution<K>) {
            let quantiles = times.quantiles(&PERCENTILES_PPM);
            let told = |(ppm, known): (&u32, Option<Quantile>)| {
                let time = Told::Time(known?);
                Some(Refusal::of(self.1, quantity, *ppm).map_or(time, Told::Refused))
            };
            let told: Vec<Told> = PERCENTILES_PPM
                .iter()
                .zip(quantiles)
                .filter_map(told)
                .collect();
            if !told.is_empty() {
                let ppm = curve_ppm(times.count());
                let points = ppm.iter().zip(times.quantiles(&ppm));
                let told_points = points.filter_map(|(ppm, known)| {
                    let is_told = Refusal::of(self.1, quantity, *ppm).is_none();
                    Some((f64::from(*ppm) / 1e4, known?.ns)).filter(|_| is_told)
                });
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
    let mut collect = Collect(Vec::new(), verdict);
    visit(run, &mut collect);
    collect.0
}

/// The spreads of a load.
pub(super) fn spreads(run: &LoadRun, verdict: Option<&OpenVerdict>) -> Vec<Spread> {
    struct Collect<'a>(Vec<Spread>, Option<&'a OpenVerdict>);
    impl Visit for Collect<'_> {
        fn see<K: Kind>(&mut self, quantity: Quantity, group: Group, times: &Distribution<K>) {
            self.0.extend(spread(quantity, group, times, self.1));
        }
    }
    let mut collect = Collect(Vec::new(), verdict);
    visit(run, &mut collect);
    collect.0
}

fn spread<K: Kind>(
    quantity: Quantity,
    group: Group,
    times: &Distribution<K>,
    verdict: Option<&OpenVerdict>,
) -> Option<Spread> {
    Some(Spread {
        quantity,
        group,
        count: times.count(),
        lower_bounds: times.lower_bounds(),
        least_ns: times.least_ns()?,
        mean_ns: times.mean_ns()?,
        deviation_ns: times.standard_deviation_ns(),
        median: times.quantile(500_000)?,
        greatest_ns: times.greatest_ns()?,
        refusal: Refusal::of(verdict, quantity, 0),
        tail_refusal: Refusal::of(verdict, quantity, 1_000_000),
    })
}

/// The bins of one quantity and group.
pub(super) fn bins(run: &LoadRun, wanted: (Quantity, Group)) -> Vec<Bin> {
    struct Find(Vec<Bin>, (Quantity, Group));
    impl Visit for Find {
        fn see<K: Kind>(&mut self, quantity: Quantity, group: Group, times: &Distribution<K>) {
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
    verdict: Option<&OpenVerdict>,
    wanted: (Quantity, Group),
    ppm: u32,
) -> Option<Told> {
    struct Find(Option<Quantile>, (Quantity, Group), u32);
    impl Visit for Find {
        fn see<K: Kind>(&mut self, quantity: Quantity, group: Group, times: &Distribution<K>) {
            if (quantity, group) == self.1 {
                self.0 = times.quantile(self.2);
            }
        }
    }
    let mut find = Find(None, wanted, ppm);
    visit(run, &mut find);
    let time = find.0?;
    Some(Refusal::of(verdict, wanted.0, ppm).map_or(Told::Time(time), Told::Refused))
}
