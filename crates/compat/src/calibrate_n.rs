//! A drop-in replacement for `calibrate-n.js`: finds how many iterations a script needs for stable
//! results.
//!
//! Parses the options (`--name=value` and the path of a script) and prints the output;
//! `analysis::iterations` decides when results are stable. Labels and figures are in the same
//! places as in the output of the original script, because programs may parse it. Whole sentences
//! are worded differently. An option value that is not a number is an error. The original script
//! instead prints a warning and uses a default, but users will have forgotten this warning after
//! hours of measuring. Start at [`run`].

use crate::console::{self, DropInConsole};
use crate::node::driver::{self, NodeDriver};
use crate::node::find_script;
use anyhow::Result;
use indexmap::IndexMap;
use speedwell_analysis::iterations::{
    CaseSamples, IterationLevel, IterationSearch, IterationSteps, RequiredSteadiness,
};
use speedwell_engine::ScriptsRequest;
use speedwell_formats::node_csv::javascript;
use speedwell_model::{Case, ParameterValue, SessionEvent, SessionObserver, Variant};
use std::io::{self, Write};

const TOOL: &str = "calibrate-n.js";
const USAGE: &str = include_str!("usage/calibrate-n.js.txt");

/// Rates of the cases for one number of iterations. The key of a case is the text of its parameter
/// values.
type RatesByCase = IndexMap<String, CaseSamples>;

/// Tries increasing numbers of iterations; returns the exit status.
///
/// # Errors
/// Fails if measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut DropInConsole<'_>) -> Result<i32> {
    if arguments.is_empty() {
        // `calibrate-n.js` itself prints its usage on standard output.
        console.stdout.write_all(USAGE.as_bytes())?;
        return Ok(console::EXIT_REJECTED);
    }
    if arguments.iter().any(|argument| argument == "--help") {
        return Ok(console.print_help(USAGE)?);
    }
    let options = match CalibrateOptions::parse(arguments) {
        Ok(options) => options,
        Err(reason) => return Ok(console.reject(TOOL, &reason, USAGE)?),
    };
    let Ok((script, folder)) = find_script(&options.path, console) else {
        writeln!(console.stderr, "{TOOL}: benchmark file '{}' does not exist", options.path)?;
        return Ok(console::EXIT_REJECTED);
    };
    let request = ScriptsRequest {
        folder,
        scripts: vec![script],
        sets: Vec::new(),
        runs: options.runs,
        variants: vec![Variant::plain("default")],
        test: false,
        processors: None,
    };
    run_calibration(&options, request, console)
}

fn run_calibration(
    options: &CalibrateOptions,
    mut request: ScriptsRequest,
    console: &mut DropInConsole<'_>,
) -> Result<i32> {
    options.print_heading(console.stdout)?;
    let mut search = IterationSearch::new(options.required, 0, options.steps);
    while let Some(n) = search.next_number {
        writeln!(console.stdout, "\nTesting with n={n}:")?;
        request.sets = vec![("n".into(), n.to_string())];
        let (rates, status) = measure_n(&request, console)?;
        if status != 0 {
            return Ok(status);
        } else if rates.is_empty() {
            return Ok(console::EXIT_REJECTED);
        }
        let level = IterationLevel::new(n, rates);
        options.print_level(console.stdout, &level)?;
        let is_best = search.record_level(level);
        if let Some(best) = &search.steadiest {
            let begin = if is_best { "New best n:" } else { "Current best n remains:" };
            let variation = format_percent(best.spread.mean);
            writeln!(console.stdout, "  → {begin} {} with average CV: {variation}%", best.n)?;
        }
    }
    options.print_conclusion(console.stdout, &search)?;
    Ok(0)
}

/// Measures with one number of iterations. Returns the rates and an exit status, which is nonzero
/// if a run failed.
fn measure_n(
    request: &ScriptsRequest,
    console: &mut DropInConsole<'_>,
) -> Result<(RatesByCase, i32)> {
    let measure = console.measure;
    let mut collector = RateCollector {
        driver: NodeDriver::new(TOOL, request, console, false),
        rates: RatesByCase::new(),
        cases: 0,
        completed_slots: 0,
    };
    measure(request, &mut collector)?;
    writeln!(collector.driver.out)?;
    Ok((collector.rates, collector.driver.failures.exit_status()))
}

/// Collects rates and prints a dot for every pass through the cases.
struct RateCollector<'a> {
    driver: NodeDriver<'a>,
    rates: RatesByCase,
    cases: usize,
    completed_slots: usize,
}

impl SessionObserver for RateCollector<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        self.driver.handle_event(event)?;
        match event {
            SessionEvent::Planned { cases, .. } => self.cases += cases.unwrap_or(0),
            SessionEvent::RunFinished(run) => {
                let rates = driver::throughput_samples(run).map(|measured| measured.rate);
                self.rates.entry(format_configuration(&run.case)).or_default().rates.extend(rates);
            }
            SessionEvent::SlotsDone(_) => {
                self.completed_slots += 1;
                if self.completed_slots.is_multiple_of(self.cases.max(1)) {
                    write!(self.driver.out, ".")?;
                    self.driver.out.flush()?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Formats the values of a case as a JavaScript object.
fn format_configuration(case: &Case) -> String {
    let pair = |(name, value): &(String, ParameterValue)| {
        let name = ParameterValue::Text(name.clone());
        format!("{}:{}", javascript::format_json(&name), javascript::format_json(value))
    };
    let pairs: Vec<String> = case.values.iter().map(pair).collect();
    format!("{{{}}}", pairs.join(","))
}

/// Options of the command line.
#[derive(Debug, Clone, PartialEq)]
struct CalibrateOptions {
    /// Script as typed.
    path: String,
    /// Number of runs with each number of iterations.
    runs: u32,
    /// Stability required to stop.
    required: RequiredSteadiness,
    /// Numbers of iterations to try.
    steps: IterationSteps,
}

impl CalibrateOptions {
    /// Parses a command line. If several paths are given, the last one is used.
    ///
    /// # Errors
    /// Fails if an option is unknown, a value is not a number above 0, or the path is missing.
    fn parse(arguments: &[String]) -> Result<CalibrateOptions, String> {
        let mut options = CalibrateOptions {
            path: String::new(),
            runs: 30,
            required: RequiredSteadiness { mean: 0.05, single: 0.10 },
            steps: IterationSteps { start: 10, factor: 10, tries: 6, most: u64::MAX },
        };
        for argument in arguments {
            if !argument.starts_with('-') {
                options.path = argument.clone();
                continue;
            }
            let pair = argument.split_once('=').filter(|_| argument.starts_with("--"));
            let (name, value) =
                pair.ok_or_else(|| format!("'{argument}' is not of the form --name=value"))?;
            match name {
                "--runs" => options.runs = parse_positive(name, value)?,
                "--max-increases" => options.steps.tries = parse_positive(name, value)?,
                "--start-n" => options.steps.start = parse_positive(name, value)?,
                "--increase" => options.steps.factor = parse_positive(name, value)?,
                "--cv-threshold" => options.required.mean = parse_positive(name, value)?,
                _ => return Err(format!("unknown option '{name}'")),
            }
        }
        if options.path.is_empty() {
            Err("no benchmark file given".to_owned())
        } else {
            Ok(options)
        }
    }

    /// Prints what will be done.
    fn print_heading(&self, out: &mut dyn Write) -> io::Result<()> {
        let rule = "-".repeat(56);
        let (mean, single) = (format_percent(self.required.mean), self.required.single * 100.0);
        let IterationSteps { start, tries, factor, .. } = self.steps;
        writeln!(
            out,
            "\n{rule}\nBenchmark: {}\n{rule}\n\
             Finds the smallest number of iterations (n) with steady results. They are steady if the\n\
             mean coefficient of variation (CV) is below {mean}% and no single CV is above {single}%.\n\n\
             Configuration:\n- Starting n: {start} iterations\n- Runs per n value: {}\n\
             - Target CV threshold: {mean}%\n- Max increases: {tries}\n- Increase factor: {factor}x",
            self.path, self.runs
        )
    }

    /// Prints each configuration with its coefficient of variation, and the result of all
    /// configurations together.
    fn print_level(&self, out: &mut dyn Write, level: &IterationLevel) -> io::Result<()> {
        for (name, variation) in level.cases() {
            let mark = if variation <= self.required.mean { "✓ Stable" } else { "✗ Unstable" };
            writeln!(out, "\nConfiguration: {name}")?;
            writeln!(out, "  CV: {}% (the lower, the steadier)", format_percent(variation))?;
            writeln!(out, "  Stability: {mark}")?;
        }
        let spread = &level.spread;
        let (mean, target) = (format_percent(spread.mean), format_percent(self.required.mean));
        let single = self.required.single * 100.0;
        let unsteady = spread.count_unsteady(self.required);
        writeln!(out, "\nOverall average CV: {mean}%")?;
        if spread.is_steady(self.required) {
            let verdict = format!("below {target}%, no configuration exceeds {single}%");
            return writeln!(out, "  ✓ Overall CV is {verdict}");
        }
        if spread.mean.is_nan() || spread.mean >= self.required.mean {
            writeln!(out, "  ✗ Overall CV ({mean}%) is not below {target}%")?;
        }
        if unsteady > 0 {
            writeln!(out, "  ✗ {unsteady} configuration(s) have CV above {single}%")?;
        }
        Ok(())
    }

    /// Prints the number of iterations that suffices or, if no number sufficed, the best one.
    fn print_conclusion(&self, out: &mut dyn Write, search: &IterationSearch) -> io::Result<()> {
        let sufficient = search.sufficient.as_ref();
        let Some(level) = sufficient.or(search.steadiest.as_ref()) else { return Ok(()) };
        let (n, mean, target) =
            (level.n, format_percent(level.spread.mean), format_percent(self.required.mean));
        if sufficient.is_some() {
            let single = self.required.single * 100.0;
            let reason = format!("CV={mean}% < {target}% and no configuration has CV > {single}%");
            writeln!(out, "\n✓ Found optimal n={n} (Overall {reason})")?;
            writeln!(out, "\nFinal CV for each configuration:")?;
        } else {
            writeln!(out, "Maximum number of increases ({}) reached", self.steps.tries)?;
            writeln!(out, "Best n found: {n} with average CV={mean}%")?;
            writeln!(out, "\nCV by configuration at best n:")?;
        }
        for (name, variation) in level.cases() {
            writeln!(out, "  {name}: {}%", format_percent(variation))?;
            let is_above = variation.is_nan() || variation > self.required.mean;
            if sufficient.is_none() && is_above {
                writeln!(out, "    ⚠️ above the target of {target}%")?;
            }
        }
        if sufficient.is_some() {
            return Ok(());
        }
        writeln!(
            out,
            "\nRecommendation: try a larger n with --max-increases, accept more variation with --cv-threshold, or\n\
             inspect the configurations that vary most. On a busy machine, results vary for any n."
        )
    }
}

fn parse_positive<N: std::str::FromStr + PartialOrd + From<u8>>(
    name: &str,
    value: &str,
) -> Result<N, String> {
    let number = value.parse().ok().filter(|number| *number > N::from(0));
    number.ok_or_else(|| format!("the value of '{name}' must be a number above 0, not '{value}'"))
}

fn format_percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<CalibrateOptions, String> {
        CalibrateOptions::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_may_follow_the_path_and_have_the_original_defaults() {
        let plain = parse(&["a.js"]).unwrap();
        assert_eq!(
            (plain.runs, plain.steps.tries, plain.steps.start, plain.steps.factor),
            (30, 6, 10, 10)
        );
        let options = parse(&["a.js", "--runs=3", "--cv-threshold=.02", "--start-n=7"]).unwrap();
        assert_eq!((options.runs, options.steps.start, options.required.mean), (3, 7, 0.02));
    }

    #[test]
    fn invalid_values_unknown_options_and_missing_paths_are_refused() {
        for words in [
            ["--runs=x", "a"],
            ["--runs=0", "a"],
            ["--cv-threshold=-1", "a"],
            ["--odd=1", "a"],
            ["--runs", "3"],
        ] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
        assert!(parse(&["--runs=3"]).is_err(), "no path");
    }
}
