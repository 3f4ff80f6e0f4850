//! How far times are to be trusted when the generator itself was late.
//!
//! The generator knows its own lateness with every request. From when a request was due is the longest that its
//! response took, and that less the lateness the shortest. Where the two distributions agree there is one figure,
//! where they do not there is a range, and a range that says nothing is refused. Start at [`Trust::all_told`].

use super::times::{Low, Quantity, Refusal, Told};
use speedwell_load::latency::{
    OpenTimes, OpenVerdict, Quantile, Values, bounds_agree, is_range_too_wide,
};
use speedwell_load::measured::Latency;
use speedwell_model::load_run::LoadRun;

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
    pub fn of(run: &LoadRun, verdict: Option<OpenVerdict>) -> Trust {
        let all = match &run.measured.totals.latency {
            Latency::Open(latency) => Some(latency.requests.merged()),
            Latency::Closed(_) => None,
        };
        Trust { verdict, all }
    }

    /// Several quantiles in millionths, in ascending order; none without values.
    pub fn all_told(&self, quantity: Quantity, ppm: &[u32], times: &Values, low: Low) -> Vec<Told> {
        let lows = low.map_or(vec![None; ppm.len()], |low| low.quantiles(ppm));
        let highs = times.quantiles(ppm);
        let each = self
            .refusals(quantity, ppm)
            .into_iter()
            .zip(highs)
            .zip(lows);
        each.filter_map(|((refusal, high), low)| {
            let time = told(high?, low);
            Some(refusal.map_or(time, Told::Refused))
        })
        .collect()
    }

    /// Why quantiles of a quantity are not told, whatever they are. A generator that was late sent its requests at
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

    /// Why the mean of a quantity is not told.
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

fn told(high: Quantile, low: Option<Quantile>) -> Told {
    let Some(low) = low else {
        return Told::Time(high);
    };
    let (low_ns, high_ns) = (low.ns as f64, high.ns as f64);
    match () {
        () if bounds_agree(low_ns, high_ns) => Told::Time(high),
        () if is_range_too_wide(low_ns, high_ns) => Told::Refused(Refusal::GeneratorLimited),
        // It may be longer than either.
        () if high.is_lower_bound => Told::Time(Quantile {
            is_lower_bound: true,
            ..low
        }),
        () => Told::Range { low, high },
    }
}
