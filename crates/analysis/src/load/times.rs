//! The times of a load: which quantities, of which requests, and how far they are to be trusted when the generator itself
//! was late.
//!
//! The generator knows its own lateness with every request. From when a request was due is the longest that its
//! response took, and that less the lateness the shortest. Where the two distributions agree there is one figure,
//! where they do not there is a range, and a range that says nothing is refused. Start at [`served`] and [`Trust`].

use speedwell_load::latency::{
    AB_PERCENTS, Bin, ByOutcome, OpenTimes, OpenVerdict, Outcome, Quantile, ServiceTimes, Timed,
    Values, bounds_agree, is_range_too_wide,
};
use speedwell_load::measured::Latency;
use speedwell_model::load_run::LoadRun;

/// The percentiles that are reported, in millionths: ab's, and two further nines before the maximum.
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

/// Why a time is not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The generator was late by itself, so the times are partly its own.
    GeneratorLimited,
    /// Too few of the due requests were sent to know the tail.
    RateMissed,
}

/// A time that is reported or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedTime {
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

impl ReportedTime {
    /// The time in nanoseconds from when requests were due, unless it is refused.
    pub fn longest_ns(self) -> Option<u64> {
        match self {
            ReportedTime::Time(time) => Some(time.ns),
            ReportedTime::Range { high, .. } => Some(high.ns),
            ReportedTime::Refused(_) => None,
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
    pub percentiles: Vec<ReportedTime>,
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
    pub median: ReportedTime,
    /// The longest.
    pub greatest: ReportedTime,
    /// Why what depends on all times, such as the mean, is not reported.
    pub refusal: Option<Refusal>,
}

/// The same times less the generator's own lateness, where that is a quantity of its own.
pub(super) type Low<'a> = Option<&'a Values>;

/// The times of one quantity, of one group of requests.
#[derive(Debug, Clone, Copy)]
struct Times<'a> {
    quantity: Quantity,
    group: Group,
    values: &'a Values,
    low: Low<'a>,
}

/// Shows all times of a load. The principal ones, by which the load is judged, come first: what users of an open load
/// would have waited, whatever the outcome of their requests; else what good answers took.
fn visit(run: &LoadRun, mut see: impl FnMut(Times)) {
    let mut see = |quantity, group, values: &Values, low: Low| {
        see(Times {
            quantity,
            group,
            values,
            low,
        });
    };
    match &run.measured.totals.latency {
        Latency::Closed(latency) => visit_sent(&latency.requests, |all| all, &mut see),
        Latency::Open(latency) => {
            let (all, ok) = (latency.requests.merged(), latency.requests.ok());
            let mut see_response = |group, times: &OpenTimes| {
                let low = times.low().map(|low| &**low);
                see(Quantity::Response, group, &times.response, low);
            };
            see_response(Group::All, &all);
            if all.response.count() > ok.response.count() {
                see_response(Group::Ok, ok);
            }
            visit_sent(&latency.requests, |times| &times.sent, &mut see);
            see(Quantity::Lag, Group::All, &latency.lag, None);
        }
    }
    let connect = run.measured.totals.latency.connect();
    see(Quantity::Connect, Group::All, connect, None);
}

fn visit_sent<T: Timed>(
    requests: &ByOutcome<T>,
    sent: impl Fn(&T) -> &ServiceTimes,
    see: &mut impl FnMut(Quantity, Group, &Values, Low),
) {
    let ok = sent(requests.ok());
    see(Quantity::Service, Group::Ok, &ok.service, None);
    let others = requests
        .iter()
        .filter(|(outcome, set)| *outcome != Outcome::Ok && sent(set).service.count() > 0);
    if others.count() > 0 {
        let all = requests.merged();
        see(Quantity::Service, Group::All, &sent(&all).service, None);
    }
    see(Quantity::FirstByte, Group::Ok, &ok.first_byte, None);
}

/// The percentiles of a load.
pub(super) fn served(run: &LoadRun, trust: &Trust) -> Vec<Served> {
    let mut all = Vec::new();
    visit(run, |times| {
        let quantiles = |ppm: &[u32]| trust.quantiles(times.quantity, ppm, times.values, times.low);
        let percentiles = quantiles(&PERCENTILES_PPM);
        if percentiles.is_empty() {
            return;
        }
        let count = times.values.count();
        let ppm = curve_ppm(count);
        let points = ppm.iter().zip(quantiles(&ppm));
        let points =
            points.filter_map(|(ppm, time)| Some((f64::from(*ppm) / 1e4, time.longest_ns()?)));
        all.push(Served {
            curve: points.collect(),
            quantity: times.quantity,
            group: times.group,
            count,
            lower_bounds: times.values.lower_bounds(),
            percentiles,
        });
    });
    all
}

/// The spreads of a load.
pub(super) fn spreads(run: &LoadRun, trust: &Trust) -> Vec<Spread> {
    let mut all = Vec::new();
    visit(run, |times| all.extend(spread(times, trust)));
    all
}

fn spread(times: Times, trust: &Trust) -> Option<Spread> {
    let Times {
        quantity,
        group,
        values,
        low,
    } = times;
    let quantile = |ppm| trust.quantiles(quantity, &[ppm], values, low).pop();
    let mean_ns = values.mean_ns()?;
    let low_mean_ns = low.and_then(Values::mean_ns);
    Some(Spread {
        quantity,
        group,
        count: values.count(),
        lower_bounds: values.lower_bounds(),
        least_ns: values.least_ns()?,
        mean_ns,
        low_mean_ns: low_mean_ns.filter(|low_ns| !bounds_agree(*low_ns, mean_ns)),
        deviation_ns: values.standard_deviation_ns(),
        median: quantile(500_000)?,
        greatest: quantile(1_000_000)?,
        refusal: trust.refusal_of_mean(quantity),
    })
}

/// What `read` makes of the times of one quantity and group, if the load has them.
fn find<T>(
    run: &LoadRun,
    wanted: (Quantity, Group),
    mut read: impl FnMut(Times) -> T,
) -> Option<T> {
    let mut found = None;
    visit(run, |times| {
        if (times.quantity, times.group) == wanted {
            found = Some(read(times));
        }
    });
    found
}

/// The bins of one quantity and group.
pub(super) fn bins(run: &LoadRun, wanted: (Quantity, Group)) -> Vec<Bin> {
    find(run, wanted, |times| times.values.bins().collect()).unwrap_or_default()
}

/// One quantile of one quantity and group; `None` without values.
pub(super) fn quantile_of(
    run: &LoadRun,
    trust: &Trust,
    wanted: (Quantity, Group),
    ppm: u32,
) -> Option<ReportedTime> {
    let quantile_of = |times: Times| {
        let mut one = trust.quantiles(times.quantity, &[ppm], times.values, times.low);
        one.pop()
    };
    find(run, wanted, quantile_of).flatten()
}

/// From here on a percentile belongs to the tail, which a load that missed its rate does not tell.
const TAIL_PPM: u32 = 990_000;

/// What is known of a load's own lateness.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    verdict: Option<OpenVerdict>,
    /// The times of all requests of an open load.
    all: Option<OpenTimes>,
}

impl Trust {
    pub fn new(run: &LoadRun, verdict: Option<OpenVerdict>) -> Trust {
        let all = match &run.measured.totals.latency {
            Latency::Open(latency) => Some(latency.requests.merged()),
            Latency::Closed(_) => None,
        };
        Trust { verdict, all }
    }

    /// Several quantiles in millionths, in ascending order; none without values.
    pub fn quantiles(
        &self,
        quantity: Quantity,
        ppm: &[u32],
        times: &Values,
        low: Low,
    ) -> Vec<ReportedTime> {
        let lows = low.map_or(vec![None; ppm.len()], |low| low.quantiles(ppm));
        let highs = times.quantiles(ppm);
        let each = self
            .refusals(quantity, ppm)
            .into_iter()
            .zip(highs)
            .zip(lows);
        each.filter_map(|((refusal, high), low)| {
            let time = bounded_time(high?, low);
            Some(refusal.map_or(time, ReportedTime::Refused))
        })
        .collect()
    }

    /// Why quantiles of a quantity are not reported, whatever they are. A generator that was late sent its requests at
    /// other times than it should, so service times are refused with the response times that they are part of.
    fn refusals(&self, quantity: Quantity, ppm: &[u32]) -> Vec<Option<Refusal>> {
        let (Some(verdict), Some(all)) = (self.verdict, &self.all) else {
            return vec![None; ppm.len()];
        };
        if is_of_the_system(quantity) {
            return vec![None; ppm.len()];
        }
        let wide = all.are_too_wide(ppm);
        let wide = wide.unwrap_or_else(|| vec![verdict.is_generator_limited(); ppm.len()]);
        let refusal = |(ppm, is_wide): (&u32, bool)| {
            if is_wide {
                Some(Refusal::GeneratorLimited)
            } else {
                (verdict.is_rate_missed() && *ppm >= TAIL_PPM).then_some(Refusal::RateMissed)
            }
        };
        ppm.iter().zip(wide).map(refusal).collect()
    }

    /// Why the mean of a quantity is not reported.
    pub fn refusal_of_mean(&self, quantity: Quantity) -> Option<Refusal> {
        let (verdict, all) = (self.verdict?, self.all.as_ref()?);
        let is_wide = all.is_mean_too_wide();
        let is_refused = is_wide.unwrap_or_else(|| verdict.is_generator_limited());
        (is_refused && !is_of_the_system(quantity)).then_some(Refusal::GeneratorLimited)
    }
}

/// The lag is the evidence itself, and connections are made by the operating system.
fn is_of_the_system(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Lag | Quantity::Connect)
}

fn bounded_time(high: Quantile, low: Option<Quantile>) -> ReportedTime {
    let Some(low) = low else {
        return ReportedTime::Time(high);
    };
    let (low_ns, high_ns) = (low.ns as f64, high.ns as f64);
    match () {
        () if bounds_agree(low_ns, high_ns) => ReportedTime::Time(high),
        () if is_range_too_wide(low_ns, high_ns) => {
            ReportedTime::Refused(Refusal::GeneratorLimited)
        }
        // It may be longer than either.
        () if high.is_lower_bound => ReportedTime::Time(Quantile {
            is_lower_bound: true,
            ..low
        }),
        () => ReportedTime::Range { low, high },
    }
}
