//! Reads the times of a load, and decides how far they can be trusted if the generator itself was
//! late.
//!
//! The generator records its own lateness for every request. The time from when a request was due
//! until its response ended is an upper bound on the true response time, because it includes the
//! lateness. The same time minus the lateness is a lower bound. If the distributions of both bounds
//! agree, one figure is reported; otherwise, a range is reported. If the range is too wide, the
//! time is refused, which means not reported. Start at [`load_times`] and [`GeneratorTrust`].

use speedwell_model::load::latency::{
    AB_PERCENTS, ByOutcome, HistogramBin, LoadLatency, OpenTimes, OpenVerdict, OutcomeSet,
    RequestOutcome, ServiceTimes, TimeQuantile, TimeRefusal, TimeValues, bounds_agree,
    is_range_too_wide,
};
use speedwell_model::load::measurement::LoadRun;

/// Reported percentiles in millionths: the percentiles of ab, and in addition 99.9 % and 99.99 %.
pub const PERCENTILES_PPM: [u32; AB_PERCENTS.len() + 2] = [
    500_000, 660_000, 750_000, 800_000, 900_000, 950_000, 980_000, 990_000, 999_000, 999_900,
    1_000_000,
];

/// A timed quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimedQuantity {
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

impl TimedQuantity {
    /// Name in files and conditions.
    pub fn name(self) -> &'static str {
        match self {
            TimedQuantity::Connect => "connect",
            TimedQuantity::FirstByte => "first-byte",
            TimedQuantity::Service => "service",
            TimedQuantity::Response => "response",
            TimedQuantity::Lag => "lag",
        }
    }

    /// All quantities.
    pub const ALL: [TimedQuantity; 5] = [
        TimedQuantity::Connect,
        TimedQuantity::FirstByte,
        TimedQuantity::Service,
        TimedQuantity::Response,
        TimedQuantity::Lag,
    ];
}

/// A group of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestGroup {
    /// Successful requests.
    Ok,
    /// All requests, with lower bounds for the times of unfinished requests.
    All,
}

impl RequestGroup {
    /// Name in files.
    pub fn name(self) -> &'static str {
        match self {
            RequestGroup::Ok => "ok",
            RequestGroup::All => "all",
        }
    }
}

/// A time that is reported or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedTime {
    /// An exact value or a lower bound.
    Time(TimeQuantile),
    /// The time lies between two bounds. Only the upper bound includes the generator's own
    /// lateness.
    Range {
        /// The time with the generator's lateness subtracted for each request.
        low: TimeQuantile,
        /// The time from when each request was due until its response ended.
        high: TimeQuantile,
    },
    /// Measured, but untrustworthy.
    Refused(TimeRefusal),
}

impl ReportedTime {
    /// The time, or the upper end of its range, in nanoseconds; `None` if the time is refused.
    pub fn longest_ns(self) -> Option<u64> {
        match self {
            ReportedTime::Time(time) => Some(time.ns),
            ReportedTime::Range { high, .. } => Some(high.ns),
            ReportedTime::Refused(_) => None,
        }
    }

    /// The lower end of a range, in nanoseconds; `None` for other times.
    pub fn low_ns(self) -> Option<u64> {
        match self {
            ReportedTime::Range { low, .. } => Some(low.ns),
            ReportedTime::Time(_) | ReportedTime::Refused(_) => None,
        }
    }
}

/// Times of one quantity and group of requests, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantityFindings {
    /// Quantity.
    pub quantity: TimedQuantity,
    /// Group of requests.
    pub group: RequestGroup,
    /// Number of values.
    pub count: u64,
    /// Number of values from requests still unfinished when the load ended. If there are any, mean
    /// and maximum are lower bounds.
    pub lower_bounds: u64,
    /// Minimum.
    pub least_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Mean without the generator's own lateness, if it differs from `mean_ns`.
    pub low_mean_ns: Option<f64>,
    /// Sample standard deviation.
    pub deviation_ns: Option<f64>,
    /// Why figures that depend on all times, such as the mean, are not reported.
    pub refusal: Option<TimeRefusal>,
    /// One entry per [`PERCENTILES_PPM`].
    pub percentiles: Vec<ReportedTime>,
    /// Points of a chart line: percentages and times in nanoseconds, without refused times.
    pub curve: Vec<(f64, u64)>,
}

impl QuantityFindings {
    /// Returns a percentile. `ppm` is the fraction of requests, in millionths; `None` if it is not
    /// one of [`PERCENTILES_PPM`].
    pub fn percentile(&self, ppm: u32) -> Option<ReportedTime> {
        let index = PERCENTILES_PPM.iter().position(|listed| *listed == ppm)?;
        self.percentiles.get(index).copied()
    }
}

/// Number of points of a curve.
const CURVE_POINTS: u32 = 60;
/// Highest percentile of a curve, as a number of nines: five nines are 99.999 %. A curve with few
/// values ends at fewer nines.
const MOST_NINES: f64 = 5.0;

/// Quantiles at the points of a curve, in millionths, evenly spaced on a scale of nines (90 %, 99
/// %, 99.9 %). The curve ends at the second largest value at the latest. Only the maximum lies
/// beyond this value, and the maximum is not a percentile.
fn curve_ppm(count: u64) -> Vec<u32> {
    let nines = (count as f64).log10().min(MOST_NINES);
    let nines_at = |point: u32| nines * f64::from(point) / f64::from(CURVE_POINTS);
    let ppm = |point| ((1.0 - 10f64.powf(-nines_at(point))) * 1e6).round() as u32;
    (0..=CURVE_POINTS).map(ppm).collect()
}

/// Times without the generator's own lateness, if recorded separately.
pub(super) type LowerTimes<'a> = Option<&'a TimeValues>;

/// Times of one quantity and group of requests.
#[derive(Debug, Clone, Copy)]
struct QuantityTimes<'a> {
    quantity: TimedQuantity,
    group: RequestGroup,
    values: &'a TimeValues,
    low: LowerTimes<'a>,
}

/// Passes all times of a load to `see`, starting with the principal times. The principal times of
/// an open load are the times that users would have waited, whatever the outcome. The principal
/// times of a closed load are the service times of successful requests.
fn visit_times(run: &LoadRun, mut see: impl FnMut(QuantityTimes)) {
    let mut see = |quantity, group, values: &TimeValues, low: LowerTimes| {
        see(QuantityTimes { quantity, group, values, low });
    };
    match &run.measured.totals.latency {
        LoadLatency::Closed(latency) => visit_sent(&latency.requests, |times| times, &mut see),
        LoadLatency::Open(latency) => {
            let (all, ok) = (latency.requests.merge_all(), latency.requests.ok());
            let mut see_response = |group, times: &OpenTimes| {
                let low = times.lower_bounds().map(|low| &**low);
                see(TimedQuantity::Response, group, &times.response, low);
            };
            see_response(RequestGroup::All, &all);
            if all.response.count() > ok.response.count() {
                see_response(RequestGroup::Ok, ok);
            }
            visit_sent(&latency.requests, |times| &times.sent, &mut see);
            see(TimedQuantity::Lag, RequestGroup::All, &latency.lag, None);
        }
    }
    let connect = run.measured.totals.latency.connect_times();
    see(TimedQuantity::Connect, RequestGroup::All, connect, None);
}

fn visit_sent<T: OutcomeSet>(
    requests: &ByOutcome<T>,
    sent: impl Fn(&T) -> &ServiceTimes,
    see: &mut impl FnMut(TimedQuantity, RequestGroup, &TimeValues, LowerTimes),
) {
    let ok = sent(requests.ok());
    see(TimedQuantity::Service, RequestGroup::Ok, &ok.service, None);
    let others = requests
        .iter()
        .filter(|(outcome, set)| *outcome != RequestOutcome::Ok && sent(set).service.count() > 0);
    if others.count() > 0 {
        let all = requests.merge_all();
        see(TimedQuantity::Service, RequestGroup::All, &sent(&all).service, None);
    }
    see(TimedQuantity::FirstByte, RequestGroup::Ok, &ok.first_byte, None);
}

/// Analyzes all times of a load. The principal quantity comes first.
pub(super) fn load_times(run: &LoadRun, trust: &GeneratorTrust) -> Vec<QuantityFindings> {
    let mut findings = Vec::new();
    visit_times(run, |times| findings.extend(quantity_findings(times, trust)));
    findings
}

fn quantity_findings(times: QuantityTimes, trust: &GeneratorTrust) -> Option<QuantityFindings> {
    let QuantityTimes { quantity, group, values, low } = times;
    let quantiles = |ppm: &[u32]| trust.quantiles(quantity, ppm, values, low);
    let mean_ns = values.mean_ns()?;
    let low_mean_ns = low.and_then(TimeValues::mean_ns);
    let curve_ppm = curve_ppm(values.count());
    let curve = curve_ppm.iter().zip(quantiles(&curve_ppm));
    Some(QuantityFindings {
        quantity,
        group,
        count: values.count(),
        lower_bounds: values.lower_bounds(),
        least_ns: values.min_ns()?,
        mean_ns,
        low_mean_ns: low_mean_ns.filter(|low_ns| !bounds_agree(*low_ns, mean_ns)),
        deviation_ns: values.standard_deviation_ns(),
        refusal: trust.mean_refusal(quantity),
        percentiles: quantiles(&PERCENTILES_PPM),
        curve: curve
            .filter_map(|(ppm, time)| Some((f64::from(*ppm) / 1e4, time.longest_ns()?)))
            .collect(),
    })
}

/// Applies `read` to the times of one quantity and group, if the load has them.
fn with_times<T>(
    run: &LoadRun,
    requested: (TimedQuantity, RequestGroup),
    mut read: impl FnMut(QuantityTimes) -> T,
) -> Option<T> {
    let mut result = None;
    visit_times(run, |times| {
        if (times.quantity, times.group) == requested {
            result = Some(read(times));
        }
    });
    result
}

/// Histogram of one quantity and group.
pub(super) fn quantity_bins(
    run: &LoadRun,
    requested: (TimedQuantity, RequestGroup),
) -> Vec<HistogramBin> {
    with_times(run, requested, |times| times.values.bins().collect()).unwrap_or_default()
}

/// Quantile of one quantity and group; `None` without values.
pub(super) fn quantile_of_group(
    run: &LoadRun,
    trust: &GeneratorTrust,
    requested: (TimedQuantity, RequestGroup),
    ppm: u32,
) -> Option<ReportedTime> {
    let quantile_of = |times: QuantityTimes| {
        let mut quantiles = trust.quantiles(times.quantity, &[ppm], times.values, times.low);
        quantiles.pop()
    };
    with_times(run, requested, quantile_of).flatten()
}

/// How far the generator's own lateness affects the times of a load.
#[derive(Debug, Clone)]
pub(super) struct GeneratorTrust {
    /// Verdict on an open load, and the times of all its requests.
    open: Option<(OpenVerdict, OpenTimes)>,
}

impl GeneratorTrust {
    pub fn new(run: &LoadRun, verdict: Option<OpenVerdict>) -> GeneratorTrust {
        let open = match &run.measured.totals.latency {
            LoadLatency::Open(latency) => verdict.map(|open| (open, latency.requests.merge_all())),
            LoadLatency::Closed(_) => None,
        };
        GeneratorTrust { open }
    }

    /// Quantiles at the fractions `ppm`, which are given in millionths and in ascending order.
    /// Empty without values.
    pub fn quantiles(
        &self,
        quantity: TimedQuantity,
        ppm: &[u32],
        times: &TimeValues,
        low: LowerTimes,
    ) -> Vec<ReportedTime> {
        let lows = low.map_or(vec![None; ppm.len()], |low| low.quantiles(ppm));
        let highs = times.quantiles(ppm);
        let refusals_and_bounds =
            self.quantile_refusals(quantity, ppm).into_iter().zip(highs).zip(lows);
        refusals_and_bounds
            .filter_map(|((refusal, high), low)| {
                let time = bounded_time(high?, low);
                Some(refusal.map_or(time, ReportedTime::Refused))
            })
            .collect()
    }

    /// Returns, for each quantile in `ppm`, why the quantile is refused; `None` if it is reported.
    /// A late generator sent its requests at the wrong times, so service times are refused along
    /// with the response times that contain them.
    fn quantile_refusals(&self, quantity: TimedQuantity, ppm: &[u32]) -> Vec<Option<TimeRefusal>> {
        match &self.open {
            Some((verdict, times)) if !is_exempt(quantity) => times.quantile_refusals(verdict, ppm),
            _ => vec![None; ppm.len()],
        }
    }

    /// Why the mean of a quantity is not reported.
    pub fn mean_refusal(&self, quantity: TimedQuantity) -> Option<TimeRefusal> {
        let (verdict, times) = self.open.as_ref().filter(|_| !is_exempt(quantity))?;
        times.mean_refusal(verdict)
    }
}

/// Whether times of this quantity are never refused: lag is itself the evidence of lateness, and
/// connections are opened by the operating system.
fn is_exempt(quantity: TimedQuantity) -> bool {
    matches!(quantity, TimedQuantity::Lag | TimedQuantity::Connect)
}

fn bounded_time(high: TimeQuantile, low: Option<TimeQuantile>) -> ReportedTime {
    let Some(low) = low else {
        return ReportedTime::Time(high);
    };
    let (low_ns, high_ns) = (low.ns as f64, high.ns as f64);
    match () {
        () if bounds_agree(low_ns, high_ns) => ReportedTime::Time(high),
        () if is_range_too_wide(low_ns, high_ns) => {
            ReportedTime::Refused(TimeRefusal::GeneratorLimited)
        }
        // The true time may exceed both bounds, so only the lower bound is certain.
        () if high.is_lower_bound => {
            ReportedTime::Time(TimeQuantile { is_lower_bound: true, ..low })
        }
        () => ReportedTime::Range { low, high },
    }
}
