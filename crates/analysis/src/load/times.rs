//! Times of a load: which quantities, of which requests, and how far they can be trusted if the
//! generator itself was late.
//!
//! The generator records its own lateness for every request. The time since a request was due is an
//! upper bound of its response time; minus the lateness, it is a lower bound. If both distributions
//! agree, one figure is reported; if not, a range, and a range that is too wide is refused. Start
//! at [`served`] and [`Trust`].

use speedwell_load::latency::{
    AB_PERCENTS, Bin, ByOutcome, OpenTimes, OpenVerdict, Outcome, Quantile, ServiceTimes, Timed,
    Values, bounds_agree, is_range_too_wide,
};
use speedwell_load::measured::Latency;
use speedwell_model::load_run::LoadRun;

/// Reported percentiles in millionths: those of ab, plus two more nines before the maximum.
pub const PERCENTILES_PPM: [u32; AB_PERCENTS.len() + 2] = [
    500_000, 660_000, 750_000, 800_000, 900_000, 950_000, 980_000, 990_000, 999_000, 999_900,
    1_000_000,
];

/// A timed quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Opening a connection.
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
    /// Name in files and conditions.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Connect => "connect",
            Quantity::FirstByte => "first-byte",
            Quantity::Service => "service",
            Quantity::Response => "response",
            Quantity::Lag => "lag",
        }
    }

    /// All quantities.
    pub const ALL: [Quantity; 5] = [
        Quantity::Connect,
        Quantity::FirstByte,
        Quantity::Service,
        Quantity::Response,
        Quantity::Lag,
    ];
}

/// A group of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Successful requests.
    Ok,
    /// All requests, with lower bounds for unfinished ones.
    All,
}

impl Group {
    /// Name in files.
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
    /// The generator itself was late, which distorts the times.
    GeneratorLimited,
    /// Too few of the due requests were sent to determine the tail.
    RateMissed,
}

/// A time that is reported or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedTime {
    /// An exact value or a lower bound.
    Time(Quantile),
    /// The time lies between two bounds: only the upper one includes the generator's own lateness.
    Range {
        /// Without the generator's lateness for each request.
        low: Quantile,
        /// Since each request was due.
        high: Quantile,
    },
    /// Measured, but untrustworthy.
    Refused(Refusal),
}

impl ReportedTime {
    /// The time since requests were due in nanoseconds, unless refused.
    pub fn longest_ns(self) -> Option<u64> {
        match self {
            ReportedTime::Time(time) => Some(time.ns),
            ReportedTime::Range { high, .. } => Some(high.ns),
            ReportedTime::Refused(_) => None,
        }
    }
}

/// Percentiles of one quantity and group of requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Quantity.
    pub quantity: Quantity,
    /// Group of requests.
    pub group: Group,
    /// Number of values.
    pub count: u64,
    /// Number of values from requests still unfinished when the load ended.
    pub lower_bounds: u64,
    /// One entry per [`PERCENTILES_PPM`].
    pub percentiles: Vec<ReportedTime>,
    /// Points of a chart line: percentages and times in nanoseconds, without refused ones.
    pub curve: Vec<(f64, u64)>,
}

/// Number of points of a curve, and the maximum number of nines if there are enough values:
/// 99.999 %.
const CURVE_POINTS: u32 = 60;
const MOST_NINES: f64 = 5.0;

/// Shares in millionths, evenly spaced on a scale of nines. They end at the last but one value;
/// beyond it there is only the maximum, not a percentile.
fn curve_ppm(count: u64) -> Vec<u32> {
    let nines = (count as f64).log10().min(MOST_NINES);
    let at = |point: u32| nines * f64::from(point) / f64::from(CURVE_POINTS);
    let ppm = |point| ((1.0 - 10f64.powf(-at(point))) * 1e6).round() as u32;
    (0..=CURVE_POINTS).map(ppm).collect()
}

/// Spread of one quantity and group of requests. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// Quantity.
    pub quantity: Quantity,
    /// Group of requests.
    pub group: Group,
    /// Number of values.
    pub count: u64,
    /// Number of values from requests still unfinished when the load ended; if any, mean and
    /// maximum are lower bounds.
    pub lower_bounds: u64,
    /// Minimum.
    pub least_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Mean without the generator's own lateness, if that differs.
    pub low_mean_ns: Option<f64>,
    /// Sample standard deviation.
    pub deviation_ns: Option<f64>,
    /// Median.
    pub median: ReportedTime,
    /// Maximum.
    pub greatest: ReportedTime,
    /// Why figures that depend on all times, such as the mean, are not reported.
    pub refusal: Option<Refusal>,
}

/// The same times without the generator's own lateness, if recorded separately.
pub(super) type Low<'a> = Option<&'a Values>;

/// Times of one quantity and group of requests.
#[derive(Debug, Clone, Copy)]
struct Times<'a> {
    quantity: Quantity,
    group: Group,
    values: &'a Values,
    low: Low<'a>,
}

/// Visits all times of a load, the principal ones first. For an open load, these are the waits that
/// users would have had, whatever the outcome; else the service times of successful requests.
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

/// Percentiles of a load.
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

/// Spreads of a load.
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

/// Applies `read` to the times of one quantity and group, if the load has them.
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

/// Histogram of one quantity and group.
pub(super) fn bins(run: &LoadRun, wanted: (Quantity, Group)) -> Vec<Bin> {
    find(run, wanted, |times| times.values.bins().collect()).unwrap_or_default()
}

/// Quantile of one quantity and group; `None` without values.
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

/// Percentile from which the tail begins, which a load that missed its rate cannot determine.
const TAIL_PPM: u32 = 990_000;

/// How far a load's own lateness affects its times.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    verdict: Option<OpenVerdict>,
    /// Times of all requests of an open load.
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

    /// Quantiles for shares in millionths, in ascending order; empty without values.
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

    /// Why quantiles of a quantity are not reported, whatever their values. A late generator sent
    /// its requests at the wrong times, so service times are refused along with the response times
    /// that contain them.
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

/// Lag is the evidence itself, and connections are opened by the operating system.
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
        // It may exceed either bound.
        () if high.is_lower_bound => ReportedTime::Time(Quantile {
            is_lower_bound: true,
            ..low
        }),
        () => ReportedTime::Range { low, high },
    }
}
