//! How times are printed: in milliseconds, with as many digits as say something.

/// Times below this have decimals, in nanoseconds.
const FINE_BELOW_NS: u64 = 10_000_000;

/// A time in milliseconds: whole from 10 ms on, else with three decimals. Nothing is plain 0.
pub fn milliseconds(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        fine if fine < FINE_BELOW_NS => format!("{:.3}", fine as f64 / 1e6),
        coarse => format!("{}", (coarse + 500_000) / 1_000_000),
    }
}

/// A standard deviation in milliseconds: one decimal as in the original, three where it is small.
pub fn deviation(ns: f64) -> String {
    match ns < FINE_BELOW_NS as f64 {
        true if ns == 0.0 => "0.0".to_owned(),
        true => format!("{:.3}", ns / 1e6),
        false => format!("{:.1}", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_answers_have_decimals_and_slow_ones_have_none() {
        for (ns, text) in [
            (0, "0"),
            (400, "0.000"),
            (161_499, "0.161"),
            (9_999_000, "9.999"),
            (10_000_000, "10"),
            (20_500_000, "21"),
            (4_299_000_000, "4299"),
        ] {
            assert_eq!(milliseconds(ns), text);
        }
        assert_eq!(deviation(0.0), "0.0");
        assert_eq!(deviation(111_600.0), "0.112");
        assert_eq!(deviation(11_840_000.0), "11.8");
    }
}
