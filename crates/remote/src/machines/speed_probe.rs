//! Times two fixed pieces of work. The result, a speed probe, reveals a machine that is slower than
//! usual, whatever the benchmark. Start at [`probe_speed`].

use speedwell_model::SpeedProbe;
use std::hint::black_box;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steps of the integer work. They take about 50 ms on a Xeon.
const INTEGER_STEPS: u32 = 18_000_000;
/// Words of the memory ring. Its 32 MiB exceed the cache per core of most processors.
const RING_WORDS: usize = 4 << 20;
/// Steps of the walk through the ring. Each step depends on the previous one. All steps take about
/// 50 ms on a Xeon.
const WALK_STEPS: u32 = 400_000;

/// Times both pieces of work on this machine.
pub fn probe_speed() -> SpeedProbe {
    let unix_time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin = Instant::now();
    black_box(run_integer_chain(black_box(INTEGER_STEPS)));
    let integer_ns = begin.elapsed().as_nanos();
    let ring = build_ring(RING_WORDS);
    let begin = Instant::now();
    black_box(walk_ring(&ring, black_box(WALK_STEPS)));
    let memory_ns = begin.elapsed().as_nanos();
    SpeedProbe {
        at_unix_ms: i64::try_from(unix_time.as_millis()).unwrap_or(i64::MAX),
        integer_ns: u64::try_from(integer_ns).unwrap_or(u64::MAX),
        memory_ns: u64::try_from(memory_ns).unwrap_or(u64::MAX),
    }
}

/// Computes a chain of dependent multiplications and shifts (xorshift64*, Vigna 2016).
fn run_integer_chain(steps: u32) -> u64 {
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..steps {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state = state.wrapping_mul(2_685_821_657_736_338_717);
    }
    state
}

/// Returns a permutation with a single cycle, in which neighbors are far apart. The permutation is
/// a full-period LCG (Hull and Dobell 1962): the multiplier minus one is a multiple of 4, the
/// increment is odd, and `count` is a power of 2.
fn build_ring(count: usize) -> Vec<usize> {
    let next = |index: usize| index.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % count;
    (0..count).map(next).collect()
}

fn walk_ring(ring: &[usize], steps: u32) -> usize {
    (0..steps).fold(0, |index, _| ring[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_leads_through_all_of_the_memory() {
        let ring = build_ring(1 << 10);
        let mut seen = vec![false; ring.len()];
        let mut place = 0;
        for _ in 0..ring.len() {
            seen[place] = true;
            place = ring[place];
        }
        assert!(place == 0 && seen.iter().all(|seen| *seen));
    }

    #[test]
    fn a_probe_measures_two_times_that_are_not_zero() {
        let probe = probe_speed();
        assert!(probe.integer_ns > 1_000_000 && probe.memory_ns > 1_000_000, "{probe:?}");
        // Ten times the steps take longer, so the optimizer has not removed the work.
        let time = |steps: u32| {
            let begun = Instant::now();
            black_box(run_integer_chain(black_box(steps)));
            begun.elapsed()
        };
        let best = |steps: u32| (0..5).map(|_| time(steps)).min().unwrap_or_default();
        assert!(best(2_000_000) > best(200_000));
    }
}
