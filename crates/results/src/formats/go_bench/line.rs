//! One line of the output of `go test -bench`.
//!
//! Decides what a line is; it must not know the lines around it. Start at [`Line::of`]. The format
//! is Go's "Benchmark Data Format" (golang.org/design/14313-benchmark-format), the other lines are
//! those of cmd/go and package testing.

/// The keys of configuration lines that `go test` itself writes.
const KEYS: [&str; 4] = ["goos", "goarch", "pkg", "cpu"];

/// What a line is.
#[derive(Debug, Clone, PartialEq)]
pub enum Line<'a> {
    /// A result with its name.
    Result(&'a str, Figures<'a>),
    /// A name whose result stands further down, as the benchmark itself printed something.
    Begin(&'a str),
    /// A result without a name.
    Rest(Figures<'a>),
    /// `goos: linux`.
    Configuration(&'a str, &'a str),
    /// `Unit NAME better=higher`.
    Direction { unit: &'a str, is_higher: bool },
    /// `--- FAIL: NAME`.
    Fail(&'a str),
    /// `--- SKIP: NAME`.
    Skip(&'a str),
    /// The last line of a package: its path if it is told, and whether all went well.
    End(Option<&'a str>, bool),
    /// `panic: WHY`.
    Panic(&'a str),
    /// A line that belongs to the line before, which is a failure, a skip or a log.
    Log(&'a str),
    /// A line of the tools without a result.
    Quiet,
    /// Anything else.
    Other,
}

/// The figures of one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures<'a> {
    /// How many iterations were executed.
    pub iterations: f64,
    /// Values with their units, as they stand in the line.
    pub values: Vec<(f64, &'a str)>,
}

impl<'a> Line<'a> {
    /// What `line` is, which has no line end.
    pub fn of(line: &'a str) -> Line<'a> {
        if let Some(found) = measured(line).or_else(|| told(line)) {
            return found;
        }
        if line.starts_with("    ") {
            return Line::Log(line.trim());
        }
        let is_quiet = line.trim().is_empty()
            || ["=== ", "--- BENCH: ", "exit status ", "coverage: ", "?   "]
                .iter()
                .any(|start| line.starts_with(start))
            // With -v the name stands alone before the line of the result.
            || (is_name(line.trim()) && !line.contains(char::is_whitespace));
        if is_quiet { Line::Quiet } else { Line::Other }
    }
}

/// Results and their beginnings.
fn measured(line: &str) -> Option<Line<'_>> {
    let (first, rest) = line.split_once(char::is_whitespace)?;
    if is_name(first) {
        if let Some(figures) = figures(rest) {
            return Some(Line::Result(first, figures));
        }
        return rest
            .trim_start_matches(' ')
            .starts_with('\t')
            .then_some(Line::Begin(first));
    }
    figures(line).map(Line::Rest)
}

/// What the tools say.
fn told(line: &str) -> Option<Line<'_>> {
    let mut words = line.split_whitespace();
    if line.starts_with("PASS") || line.starts_with("ok  \t") || line.starts_with("FAIL") {
        let is_good = !line.starts_with("FAIL");
        return match words.next()? {
            "PASS" => Some(Line::Quiet),
            // FAIL stands alone above the line that names the package, and below the last package.
            "FAIL" if words.clone().next().is_none() => Some(Line::Quiet),
            "ok" | "FAIL" => Some(Line::End(words.next(), is_good)),
            _ => None,
        };
    }
    if let Some(why) = line.strip_prefix("panic: ") {
        return Some(Line::Panic(why));
    }
    let benchmark = |start: &str| {
        let rest = line.trim_start().strip_prefix(start)?;
        rest.split_whitespace().next().filter(|name| is_name(name))
    };
    let stopped = benchmark("--- FAIL: ")
        .map(Line::Fail)
        .or_else(|| benchmark("--- SKIP: ").map(Line::Skip));
    if stopped.is_some() {
        return stopped;
    }
    if line.starts_with("Unit ") {
        let unit = words.nth(1)?;
        return words.find_map(|word| {
            let is_higher = word.strip_prefix("better=")? == "higher";
            Some(Line::Direction { unit, is_higher })
        });
    }
    let (key, value) = line.split_once(':')?;
    KEYS.contains(&key)
        .then(|| Line::Configuration(key, value.trim()))
}

/// Go's rule for the names of functions: `Benchmark`, then anything but a small letter.
fn is_name(word: &str) -> bool {
    word.strip_prefix("Benchmark")
        .is_some_and(|rest| !rest.starts_with(char::is_lowercase))
}

/// `62466  97.59 ns/op  16 B/op`.
fn figures(text: &str) -> Option<Figures<'_>> {
    let mut words = text.split_whitespace();
    let iterations: u64 = words.next()?.parse().ok()?;
    let mut values = Vec::new();
    while let Some(value) = words.next() {
        values.push((value.parse().ok()?, words.next()?));
    }
    (!values.is_empty()).then_some(Figures {
        iterations: iterations as f64,
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_by_its_form() {
        let figures = Figures {
            iterations: 20.0,
            values: vec![(1.5, "ns/op"), (3.0, "x/y")],
        };
        for (line, expected) in [
            (
                "BenchmarkA/n=8-2 \t 20\t 1.5 ns/op 3 x/y",
                Line::Result("BenchmarkA/n=8-2", figures.clone()),
            ),
            ("BenchmarkA-2  \thello", Line::Begin("BenchmarkA-2")),
            (" 20\t 1.5 ns/op 3 x/y", Line::Rest(figures)),
            ("BenchmarkA-2 takes long", Line::Other),
            ("BenchmarkA-2 20 1.5", Line::Other),
            ("Benchmarks 20 1.5 ns/op", Line::Other),
            ("BenchmarkA", Line::Quiet),
            ("cpu: A: B", Line::Configuration("cpu", "A: B")),
            ("note: x", Line::Other),
            ("--- FAIL: BenchmarkA-2", Line::Fail("BenchmarkA-2")),
            ("--- FAIL: TestA (0.00s)", Line::Other),
            ("FAIL\tx/y\t0.2s", Line::End(Some("x/y"), false)),
            ("ok  \tx/y\t0.2s", Line::End(Some("x/y"), true)),
            ("FAIL", Line::Quiet),
            (
                "Unit fills/x better=higher",
                Line::Direction {
                    unit: "fills/x",
                    is_higher: true,
                },
            ),
        ] {
            assert_eq!(Line::of(line), expected, "{line}");
        }
    }
}
