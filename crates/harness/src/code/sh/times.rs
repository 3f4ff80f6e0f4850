//! The times of executions, however many: beyond a number of them every second one is kept, then every fourth, and
//! so on, which leaves quantiles as they are.

/// More are not kept.
const MOST: usize = 1 << 16;

/// Times, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Times {
    kept: Vec<u64>,
    stride: u64,
    count: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            kept: Vec::new(),
            stride: 1,
            count: 0,
        }
    }
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        if self.count.is_multiple_of(self.stride) {
            self.kept.push(ns);
        }
        self.count += 1;
        if self.kept.len() == MOST {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Minimum, 5 %, 25 % and 50 %, in picoseconds; nothing without times.
    pub fn quantiles_ps(&self) -> Vec<String> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let last = match sorted.len() {
            0 => return Vec::new(),
            length => length - 1,
        };
        let at = |share: f64| sorted[(share * last as f64).round() as usize] * 1000;
        [0.0, 0.05, 0.25, 0.5]
            .map(|share| at(share).to_string())
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_stay_when_only_some_times_are_kept() {
        let mut times = Times::default();
        for ns in 0..1_000_000 {
            times.add(ns);
        }
        assert_eq!(times.count(), 1_000_000);
        assert!(times.kept.len() < MOST);
        let median: f64 = times.quantiles_ps()[3].parse().unwrap();
        assert!((median / 500_000_000.0 - 1.0).abs() < 0.001, "{median}");
        assert!(Times::default().quantiles_ps().is_empty());
    }
}
