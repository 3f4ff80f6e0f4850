//! How findings name several things in a sentence.

/// `'a'`, `'a' and 'b'`, `'a', 'b' and 'c'`.
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
    joined(&names)
}

/// `a`, `a and b`, `a, b and c`.
pub fn joined(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Which of several runs, counted from 1: nothing if there is one run, ` in all 8 runs`,
/// ` in run 2 of 3`, ` in runs 1 and 3 of 3`.
pub(super) fn of_runs(numbers: &[usize], all: usize) -> String {
    /// So many numbers are listed; more are counted.
    const LISTED: usize = 4;
    match numbers.len() {
        _ if all == 1 => String::new(),
        2 if all == 2 => " in both runs".to_owned(),
        count if count == all => format!(" in all {all} runs"),
        1 => format!(" in run {} of {all}", numbers[0]),
        count if count > LISTED => format!(" in {count} of {all} runs"),
        _ => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!(" in runs {} of {all}", joined(&numbers))
        }
    }
}

/// `186.1`, or `95.6 to 98.6` if there are several that differ when printed.
pub(super) fn span(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (format!("{low:.1}"), format!("{high:.1}"));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}
