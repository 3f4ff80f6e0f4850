//! Packs the samples of a run into arrays of bytes, bit for bit. Each metric has its own set of
//! arrays.
//!
//! Any program can read little-endian arrays (`numpy.frombuffer`, `struct.unpack`). If a fact about
//! a sample is missing, the array contains a marker instead. An array that would contain only
//! markers is omitted, because most harnesses report values only.

use speedwell_model::{Run, Sample};
use std::sync::Arc;

/// Marks an unknown duration. As a duration, the value would be 584 years.
const NO_ELAPSED: u64 = u64::MAX;
/// Marks an unknown iteration count: a quiet NaN with a payload that no arithmetic produces.
const NO_ITERATIONS: u64 = 0x7ff8_0000_5350_574c;

/// All samples of one metric in one run.
#[derive(Debug, Default)]
pub(super) struct PackedSamples {
    /// Values of the samples.
    pub readings: Vec<u8>,
    /// Durations of the samples; `None` if no duration is known.
    pub elapsed_ns: Option<Vec<u8>>,
    /// Iteration counts of the samples; `None` if no count is known.
    pub iterations: Option<Vec<u8>>,
    /// Indices of the samples among all samples of the run; `None` if they are 0, 1, 2 ...
    pub positions: Option<Vec<u8>>,
}

/// Groups the samples of a run by metric, and packs each group. Metrics are in the order of their
/// first samples.
pub(super) fn pack_samples(run: &Run) -> Vec<(Arc<str>, PackedSamples)> {
    let mut metrics: Vec<(Arc<str>, Vec<usize>)> = Vec::new();
    for (position, sample) in run.samples.iter().enumerate() {
        match metrics.iter_mut().find(|(metric, _)| *metric == sample.metric) {
            Some((_, positions)) => positions.push(position),
            None => metrics.push((sample.metric.clone(), vec![position])),
        }
    }
    metrics
        .into_iter()
        .map(|(metric, positions)| (metric, pack_metric(&run.samples, &positions)))
        .collect()
}

fn pack_metric(samples: &[Sample], positions: &[usize]) -> PackedSamples {
    let encode = |bits: fn(&Sample) -> u64| -> Vec<u8> {
        positions.iter().flat_map(|&position| bits(&samples[position]).to_le_bytes()).collect()
    };
    let has_any = |is_known: fn(&Sample) -> bool| {
        positions.iter().any(|&position| is_known(&samples[position]))
    };
    let is_contiguous =
        positions.iter().enumerate().all(|(expected, &position)| expected == position);
    PackedSamples {
        readings: encode(|sample| sample.value.to_bits()),
        elapsed_ns: has_any(|sample| sample.elapsed_ns.is_some())
            .then(|| encode(|sample| sample.elapsed_ns.unwrap_or(NO_ELAPSED))),
        iterations: has_any(|sample| sample.iterations.is_some())
            .then(|| encode(|sample| sample.iterations.map_or(NO_ITERATIONS, f64::to_bits))),
        positions: (!is_contiguous).then(|| {
            positions.iter().flat_map(|&position| (position as u32).to_le_bytes()).collect()
        }),
    }
}

/// Arrays of a metric, as read from the store.
pub(super) struct StoredArrays<'a> {
    /// As in [`PackedSamples`].
    pub readings: &'a [u8],
    /// As in [`PackedSamples`].
    pub elapsed_ns: Option<&'a [u8]>,
    /// As in [`PackedSamples`].
    pub iterations: Option<&'a [u8]>,
    /// As in [`PackedSamples`].
    pub positions: Option<&'a [u8]>,
}

/// Collects the samples of a run, metric by metric.
#[derive(Default)]
pub(super) struct SampleUnpacker {
    samples: Vec<(u32, Sample)>,
    metrics: usize,
}

impl SampleUnpacker {
    /// Adds the samples of a metric.
    pub fn add_metric(&mut self, metric: &Arc<str>, stored: &StoredArrays<'_>) {
        let mut elapsed = stored.elapsed_ns.map(le_words);
        let mut iterations = stored.iterations.map(le_words);
        let mut positions = stored.positions.map(|bytes| bytes.as_chunks().0.iter());
        for (index, value) in le_words(stored.readings).enumerate() {
            let stored_position = positions.as_mut().and_then(Iterator::next);
            let elapsed_ns = elapsed.as_mut().and_then(Iterator::next);
            let iteration_count = iterations.as_mut().and_then(Iterator::next);
            let sample = Sample {
                metric: metric.clone(),
                value: f64::from_bits(value),
                elapsed_ns: elapsed_ns.filter(|&ns| ns != NO_ELAPSED),
                iterations: iteration_count
                    .filter(|&count| count != NO_ITERATIONS)
                    .map(f64::from_bits),
            };
            let position = stored_position.map_or(index as u32, |bytes| u32::from_le_bytes(*bytes));
            self.samples.push((position, sample));
        }
        self.metrics += 1;
    }

    /// Removes and returns the samples in the order in which the run reported them.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        if self.metrics > 1 {
            self.samples.sort_by_key(|(position, _)| *position);
        }
        self.metrics = 0;
        self.samples.drain(..).map(|(_, sample)| sample).collect()
    }
}

/// Returns the 8-byte words of an array. An incomplete last word is dropped.
fn le_words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::Case;

    fn sample_of(metric: &str, value: f64) -> Sample {
        Sample { metric: metric.into(), value, elapsed_ns: None, iterations: None }
    }

    fn run_with(samples: Vec<Sample>) -> Run {
        Run { samples, ..Run::empty(Case::new("g/b", Vec::new()), "a", 0, 0) }
    }

    fn round_trip(samples: Vec<Sample>) -> Vec<Sample> {
        let mut unpacking = SampleUnpacker::default();
        for (metric, packed) in pack_samples(&run_with(samples)) {
            let stored = StoredArrays {
                readings: &packed.readings,
                elapsed_ns: packed.elapsed_ns.as_deref(),
                iterations: packed.iterations.as_deref(),
                positions: packed.positions.as_deref(),
            };
            unpacking.add_metric(&metric, &stored);
        }
        unpacking.take_samples()
    }

    #[test]
    fn bare_values_of_one_metric_cost_eight_bytes_each() {
        let packed = pack_samples(&run_with(vec![sample_of("t", 1.5), sample_of("t", 2.5)]));
        let [(name, only)] = packed.as_slice() else { panic!("{packed:?}") };
        assert_eq!((&**name, only.readings.len()), ("t", 16));
        assert_eq!(only.readings[..8], 1.5f64.to_le_bytes());
        assert!(only.elapsed_ns.is_none() && only.iterations.is_none() && only.positions.is_none());
    }

    #[test]
    fn interleaved_metrics_keep_their_order() {
        let samples: Vec<Sample> = ["t", "p99", "t", "errors", "p99", "t"]
            .iter()
            .zip(0..)
            .map(|(metric, value)| sample_of(metric, f64::from(value)))
            .collect();
        assert_eq!(round_trip(samples.clone()), samples);
    }

    #[test]
    fn optional_fields_of_single_samples_survive_packing() {
        let mut samples = vec![sample_of("t", 1.0), sample_of("t", 2.0), sample_of("t", 3.0)];
        samples[1].elapsed_ns = Some(0);
        samples[2].iterations = Some(1e6);
        assert_eq!(round_trip(samples.clone()), samples);
    }

    #[test]
    fn special_floating_point_values_keep_every_bit() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE / 4.0];
        let mut samples: Vec<Sample> = odd.iter().map(|&value| sample_of("t", value)).collect();
        samples[0].iterations = Some(f64::NAN);
        let back = round_trip(samples);
        let bits = |value: f64| value.to_bits();
        assert_eq!(back.iter().map(|s| bits(s.value)).collect::<Vec<_>>(), odd.map(bits));
        assert!(back[0].iterations.is_some_and(f64::is_nan), "a NaN differs from a missing count");
        assert_eq!(back[1].iterations, None);
    }
}
