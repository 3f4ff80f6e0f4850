//! Drop-in for `calibrate-n.js`: how many iterations a script needs until its results are steady.
//!
//! Decides options and output of that tool; what is steady is decided by `analysis::iterations`. Start at [`run`].

mod options;
mod told;

use super::benchmark_folder::script_at;
use super::console::{self, Console};
use super::driver::{self, Driver};
use anyhow::Result;
use indexmap::IndexMap;
use options::Options;
use speedwell_analysis::iterations::{Level, Results, Search, Steps};
use speedwell_measure::ScriptsRequest;
use speedwell_model::{Case, Event, Observer, Variant};

const TOOL: &str = "calibrate-n.js";
const USAGE: &str = include_str!("usage/calibrate-n.js.txt");

/// The rates of the cases under one number of iterations, by the text of their values.
type Rates = IndexMap<String, Results>;

/// Tries larger and larger numbers of iterations; returns the exit status.
///
/// # Errors
/// Measuring is impossible, or a stream is closed.
pub fn run(arguments: &[String], console: &mut Console<'_>) -> Result<i32> {
    if arguments.is_empty() {
        // The original explains itself on standard output.
        console.stdout.write_all(USAGE.as_bytes())?;
        return Ok(console::REFUSED);
    }
    if arguments.iter().any(|word| word == "--help") {
        return Ok(console.help(USAGE)?);
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(reason) => return Ok(console.refuse(TOOL, &reason, USAGE)?),
    };
    match script_at(&options.path, console) {
        Ok((script, folder)) => {
            let request = ScriptsRequest {
                folder,
                scripts: vec![script],
                sets: Vec::new(),
                runs: options.runs,
                variants: vec![Variant::plain("default")],
                test: false,
                processors: None,
            };
            calibrate(&options, request, console)
        }
        Err(_) => {
            let reason = format!("there is no benchmark file '{}'", options.path);
            writeln!(console.stderr, "{TOOL}: {reason}")?;
            Ok(console::REFUSED)
        }
    }
}

fn calibrate(
    options: &Options,
    mut request: ScriptsRequest,
    console: &mut Console<'_>,
) -> Result<i32> {
    told::heading(console.stdout, options)?;
    let steps = Steps {
        start: options.start,
        factor: options.factor,
        tries: options.increases,
        most: u64::MAX,
    };
    let mut search = Search::new(options.enough, 0, steps);
    while let Some(n) = search.n() {
        writeln!(console.stdout, "\nTesting with n={n}:")?;
        request.sets = vec![("n".into(), n.to_string())];
        let (rates, status) = tried(&request, console)?;
        if status != 0 || rates.is_empty() {
            return Ok(if status == 0 {
                console::REFUSED
            } else {
                status
            });
        }
        let level = Level::new(n, rates);
        told::cases(console.stdout, &level, options)?;
        told::overall(console.stdout, &level.spread, options)?;
        let is_best = search.observe(level);
        if let Some(best) = search.best() {
            told::best(console.stdout, is_best, best)?;
        }
    }
    match (search.found(), search.best()) {
        (Some(found), _) => told::found(console.stdout, found, options)?,
        (None, Some(best)) => told::given_up(console.stdout, best, options)?,
        (None, None) => {}
    }
    Ok(0)
}

/// The rates under one number of iterations, and the exit status of what failed.
fn tried(request: &ScriptsRequest, console: &mut Console<'_>) -> Result<(Rates, i32)> {
    let measure = console.measure;
    let mut collector = Collector {
        driver: Driver::new(TOOL, request, console, false),
        rates: Rates::new(),
        cases: 0,
        done: 0,
    };
    measure(request, &mut collector)?;
    writeln!(collector.driver.out)?;
    Ok((collector.rates, collector.driver.failures.status()))
}

/// Collects rates and shows a dot for every pass through the cases.
struct Collector<'a> {
    driver: Driver<'a>,
    rates: Rates,
    cases: usize,
    done: usize,
}

impl Observer for Collector<'_> {
    fn observe(&mut self, event: &Event<'_>) -> Result<()> {
        self.driver.follow(event)?;
        match event {
            Event::Planned { cases, .. } => self.cases += cases.unwrap_or(0),
            Event::RunFinished(run) => {
                let rates = driver::rates(run).map(|measured| measured.rate);
                self.rates
                    .entry(configuration(&run.case))
                    .or_default()
                    .rates
                    .extend(rates);
            }
            Event::SlotDone(_) => {
                self.done += 1;
                if self.done.is_multiple_of(self.cases.max(1)) {
                    write!(self.driver.out, ".")?;
                    self.driver.out.flush()?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The values of a case as JavaScript writes an object.
fn configuration(case: &Case) -> String {
    use speedwell_results::formats::node_csv::javascript;
    let pair = |(name, value): &(String, speedwell_model::Value)| {
        let name = speedwell_model::Value::Text(name.clone());
        format!("{}:{}", javascript::json(&name), javascript::json(value))
    };
    let pairs: Vec<String> = case.values.iter().map(pair).collect();
    format!("{{{}}}", pairs.join(","))
}
