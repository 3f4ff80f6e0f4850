//! Chooses units for results of Go benchmarks: the unit in which a figure is stored, and the prefix
//! and number of digits with which it is written. Start at [`tidy_unit`] and [`UnitScale`].

/// A unit prefix with its factor. `min_values` are the smallest values that are shown with one, two
/// and three decimals.
struct PrefixStep {
    factor: f64,
    prefix: &'static str,
    min_values: [f64; 3],
}

/// From each of these values on, rounding to four digits gives at least the next power of ten (100,
/// 10 and 1).
const DIGIT_EDGES: [f64; 3] = [99.995, 9.9995, 0.99995];

/// Returns the words of a unit, each with its position and whether it is in the denominator.
fn unit_words(unit: &str) -> Vec<(usize, &str, bool)> {
    let mut words = Vec::new();
    let mut is_denominator = false;
    let mut begin = None;
    for (index, character) in unit.char_indices().chain([(unit.len(), ' ')]) {
        if !(matches!(character, '*' | '/' | '-') || character.is_whitespace()) {
            begin.get_or_insert(index);
            continue;
        }
        if let Some(begin) = begin.take() {
            words.push((begin, &unit[begin..index], is_denominator));
        }
        match character {
            '*' => is_denominator = false,
            '/' => is_denominator = true,
            _ => {}
        }
    }
    words
}

/// Replaces nanoseconds and megabytes in the numerator of a unit with seconds and bytes. Also
/// returns the factor that converts values to the new unit.
pub fn tidy_unit(unit: &str) -> (String, f64) {
    match unit {
        "ns/op" => return ("sec/op".to_owned(), 1e-9),
        "MB/s" => return ("B/s".to_owned(), 1e6),
        _ => {}
    }
    let mut tidied = unit.to_owned();
    let is_untidy = |(_, word, is_denominator): &(usize, &str, bool)| {
        !is_denominator && matches!(*word, "ns" | "MB")
    };
    let untidy: Vec<(usize, &str, bool)> = unit_words(unit).into_iter().filter(is_untidy).collect();
    // Factors are applied in the order of the words, so that rounding is the same as in Go's
    // benchstat.
    let factor = untidy.iter().fold(1.0, |factor, (_, word, _)| match *word {
        "ns" => factor / 1e9,
        _ => factor * 1e6,
    });
    for (position, word, _) in untidy.into_iter().rev() {
        let replacement = if word == "ns" { "sec" } else { "B" };
        tidied.replace_range(position..position + word.len(), replacement);
    }
    (tidied, factor)
}

/// Whether values are written with binary prefixes.
pub fn is_binary(unit: &str) -> bool {
    let is_bytes = |&(_, word, is_denominator): &(usize, &str, bool)| {
        !is_denominator && matches!(word, "B" | "MB" | "bytes")
    };
    unit_words(unit).iter().any(is_bytes)
}

/// Scale of the values of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitScale {
    decimals: usize,
    factor: f64,
    prefix: &'static str,
}

impl UnitScale {
    /// Returns the scale in which the smallest value has four digits.
    pub fn for_values(values: &[f64], is_binary: bool) -> UnitScale {
        let sizes = values.iter().map(|value| value.abs()).filter(|size| *size != 0.0);
        let Some(smallest) =
            sizes.reduce(|smallest, size| if size < smallest { size } else { smallest })
        else {
            return UnitScale { decimals: 3, factor: 1.0, prefix: "" };
        };
        let steps = prefix_steps(is_binary);
        for step in &steps {
            if let Some(index) = step.min_values.iter().position(|min_value| smallest >= *min_value)
            {
                return UnitScale { decimals: index + 1, factor: step.factor, prefix: step.prefix };
            }
        }
        // Even with the smallest prefix, the smallest value is below 1, so more decimals are shown.
        let (factor, prefix) = steps.last().map_or((1.0, ""), |step| (step.factor, step.prefix));
        let value = smallest / factor;
        let edges = [
            9.9995e-1, 9.9995e-2, 9.9995e-3, 9.9995e-4, 9.9995e-5, 9.9995e-6, 9.9995e-7, 9.9995e-8,
        ];
        let index = edges.iter().position(|edge| value >= *edge).unwrap_or(edges.len() - 1);
        UnitScale { decimals: index + 3, factor, prefix }
    }

    /// Formats a value in this scale.
    pub fn format_value(&self, value: f64) -> String {
        format_fixed(value / self.factor, self.decimals) + self.prefix
    }
}

fn prefix_steps(is_binary: bool) -> Vec<PrefixStep> {
    if is_binary {
        let step = |(prefix, power): (&'static str, i32)| PrefixStep {
            factor: 2f64.powi(power),
            prefix,
            min_values: DIGIT_EDGES.map(|edge| edge * 2f64.powi(power)),
        };
        return [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10), ("", 0)].map(step).into();
    }
    // The factors are parsed from decimal digits, because products would be rounded twice.
    let step = |(prefix, power): (&'static str, i32)| {
        let parse_scaled = |digits: &str| format!("{digits}e{power}").parse().unwrap_or(f64::NAN);
        PrefixStep {
            factor: parse_scaled("1"),
            prefix,
            min_values: [parse_scaled("99.995"), parse_scaled("9.9995"), parse_scaled(".99995")],
        }
    };
    [("T", 12), ("G", 9), ("M", 6), ("k", 3), ("", 0), ("m", -3), ("µ", -6), ("n", -9)]
        .map(step)
        .into()
}

/// Formats a number with `decimals` decimals as Go does.
pub fn format_fixed(value: f64, decimals: usize) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        v => format!("{v:.decimals$}"),
    }
}

/// Formats a change in percent, with its sign.
pub fn format_percentage(change: f64) -> String {
    match change {
        v if v.is_nan() => "+NaN%".to_owned(),
        v if v.is_infinite() => format_fixed(v, 2) + "%",
        v => format!("{:+.2}%", v),
    }
}

/// Formats a number with the fewest digits that identify it, as Go does. Numbers below 0.0001, and
/// numbers from a million on, have an exponent.
pub fn format_shortest(value: f64) -> String {
    if !value.is_finite() {
        return format_fixed(value, 0);
    }
    let scientific = format!("{value:e}");
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    if value != 0.0 && !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_tidied_above_the_fraction_bar_only() {
        assert_eq!(tidy_unit("ns/op"), ("sec/op".to_owned(), 1e-9));
        assert_eq!(tidy_unit("p99-ns/MB"), ("p99-sec/MB".to_owned(), 1e-9));
        assert_eq!(tidy_unit("op/ns*MB"), ("op/ns*B".to_owned(), 1e6));
        assert_eq!(tidy_unit("MB*ns/op"), ("B*sec/op".to_owned(), 1e6 / 1e9));
        assert_eq!(tidy_unit("allocs/op"), ("allocs/op".to_owned(), 1.0));
        assert!(is_binary("B/op") && is_binary("text-bytes") && !is_binary("op/B"));
    }

    #[test]
    fn the_smallest_value_sets_the_prefix_and_has_four_digits() {
        let one =
            |value: f64, is_binary| UnitScale::for_values(&[value], is_binary).format_value(value);
        for (value, text) in [
            (0.0, "0.000"),
            (1.5e-6, "1.500µ"),
            (99.994, "99.99"),
            (99.996, "100.0"),
            (9.99951e-4, "1.000m"),
            (123456.0, "123.5k"),
            (1e15, "1000.0T"),
            (1e-10, "0.1000n"),
            (1e-20, "0.0000000000n"),
        ] {
            assert_eq!(one(value, false), text, "{value}");
        }
        assert_eq!(one(1024.0, true), "1.000Ki");
        let scale = UnitScale::for_values(&[-2.0, 3000.0], false);
        assert_eq!(scale.format_value(3000.0), "3000.000");
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, text) in [
            (2.2530000000000003e-06, "2.2530000000000003e-06"),
            (0.0001, "0.0001"),
            (534300.0, "534300"),
            (8507500.0, "8.5075e+06"),
            (1e21, "1e+21"),
            (0.95, "0.95"),
            (-1.5, "-1.5"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(format_shortest(value), text);
        }
        assert_eq!(format_percentage(-0.001), "-0.00%");
    }
}
