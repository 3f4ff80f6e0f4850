//! Converts a Node.js benchmark CSV into a session.
//!
//! Decides how rows map to runs, variants and failures. Each row becomes one run or one failure,
//! because the Node.js scripts start a new process for every row.

use crate::node_csv::reader::{CsvRow, RowReader};
use crate::node_csv::{self, CsvLayout, MeasuredRate, javascript};
use crate::session_builder::{InputFile, ONLY_VARIANT, empty_session, value_sample};
use anyhow::{Context, Result, bail, ensure};
use speedwell_model::{
    Case, FailureCause, Metric, ParameterValue, Run, Sample, Session, SessionStep, StepFailure,
    Variant,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Reads a whole file. Adds messages about dropped content to `remarks`.
///
/// # Errors
/// Fails if the file has no rows, or a configuration that is not a list of `name=value`.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let label = file.label;
    let mut reader = RowReader::new(file.bytes);
    let mut collected =
        RowCollector { metric: Metric::THROUGHPUT.into(), ..RowCollector::default() };
    while let Some(row) = reader.next_row()? {
        let number = collected.runs.len() + collected.failures.len() + 1;
        collected.add_row(&row).with_context(|| format!("row {number} of '{label}'"))?;
    }
    ensure!(!collected.variants.is_empty(), "'{label}' has a header but no results");
    remarks.extend(reader.skipped.warning());
    remarks.extend(collected.warning());
    // The Node.js scripts terminate every line, so an unterminated last line may have lost digits.
    if !file.bytes.ends_with(b"\n") {
        remarks.push("its last line has no newline, so it may be cut short".to_owned());
    }
    let remark = remarks.first().map(|remark| format!("'{label}': {remark}"));
    Ok(vec![collected.into_session(label, remark)])
}

#[derive(Default)]
struct RowCollector {
    metric: Arc<str>,
    /// Layout of the row that was added last.
    layout: Option<CsvLayout>,
    /// Cases by their text in the file. Each text recurs in many rows and is parsed only once.
    cases_by_text: HashMap<Box<[u8]>, KnownCase>,
    /// Index of each case by id.
    indices_by_id: HashMap<String, usize>,
    variants: Vec<Arc<str>>,
    /// Number of rows so far, by the indices of case and variant.
    counts: HashMap<(usize, usize), u32>,
    runs: Vec<Run>,
    failures: Vec<StepFailure>,
}

/// A case seen before. Several strings may denote the same case.
#[derive(Clone)]
struct KnownCase {
    case: Arc<Case>,
    index: usize,
}

impl RowCollector {
    fn add_row(&mut self, row: &CsvRow<'_>) -> Result<()> {
        let KnownCase { case, index } = self.row_case(row)?;
        let variant = self.variant_index(row.binary().as_deref().unwrap_or(ONLY_VARIANT));
        let slot = (self.runs.len() + self.failures.len()) as u32;
        let count = self.counts.entry((index, variant)).or_default();
        let block = *count;
        *count += 1;
        let variant = self.variants[variant].clone();
        if !row.rate.is_finite() {
            self.failures.push(missing_rate_failure(&case, &variant, slot, row.rate));
            return Ok(());
        }
        let elapsed_ns = row.elapsed_ns();
        let sample = Sample { elapsed_ns, ..value_sample(&self.metric, row.rate) };
        self.runs.push(Run {
            // The file does not contain the running time of the process. The measured time is a
            // lower bound.
            wall_ns: elapsed_ns.unwrap_or_default(),
            samples: vec![sample],
            ..Run::empty(case, variant, slot, block)
        });
        Ok(())
    }

    fn row_case(&mut self, row: &CsvRow<'_>) -> Result<KnownCase> {
        if self.layout.as_ref() != Some(row.layout) {
            // The same text has another meaning in another layout.
            self.cases_by_text.clear();
            self.layout = Some(row.layout.clone());
        }
        if let Some(known_case) = self.cases_by_text.get(row.case_text()) {
            return Ok(known_case.clone());
        }
        let case = Arc::new(Case::new(row.filename(), row_values(row)?));
        let next = self.indices_by_id.len();
        let index = *self.indices_by_id.entry(case.id()).or_insert(next);
        let known_case = KnownCase { case, index };
        self.cases_by_text.insert(row.case_text().into(), known_case.clone());
        Ok(known_case)
    }

    /// Returns the index of a variant, adding it if needed.
    fn variant_index(&mut self, name: &str) -> usize {
        match self.variants.iter().position(|existing| &**existing == name) {
            Some(index) => index,
            None => {
                self.variants.push(name.into());
                self.variants.len() - 1
            }
        }
    }

    fn warning(&self) -> Option<String> {
        let count = self.failures.len();
        (count > 0).then(|| match count {
            1 => "1 result has no rate and counts as a failure".to_owned(),
            _ => format!("{count} results have no rate and count as failures"),
        })
    }

    fn into_session(mut self, label: &str, remark: Option<String>) -> Session {
        // `old` is the baseline wherever it is in the file.
        self.variants.sort_by_key(|name| &**name != "old");
        let variants = self.variants.iter();
        let mut session = empty_session(
            label,
            variants.map(|name| Variant::plain(&**name)).collect(),
            self.counts.values().copied().max(),
        );
        let facts = &mut session.environment.facts;
        facts.extend(remark.map(|remark| ("import".to_owned(), remark)));
        session.metrics.push(Metric::throughput());
        Session { runs: self.runs, failures: self.failures, ..session }
    }
}

fn row_values(row: &CsvRow<'_>) -> Result<Vec<(String, ParameterValue)>> {
    if let Some(text) = row.configuration() {
        return javascript::parse_configuration(&text)
            .with_context(|| format!("cannot read the configuration of '{}'", row.filename()));
    }
    let value = |(name, text, quoted): (&str, Cow<'_, str>, bool)| {
        let value = if quoted {
            ParameterValue::Text(text.into_owned())
        } else {
            javascript::parse_bare(&text)
        };
        (name.to_owned(), value)
    };
    Ok(row.parameters().map(value).collect())
}

fn missing_rate_failure(case: &Case, variant: &str, slot: u32, rate: f64) -> StepFailure {
    StepFailure {
        step: SessionStep::Run,
        benchmark: case.benchmark.clone(),
        case: Some(case.id()),
        variant: Some(variant.to_owned()),
        slot: Some(slot),
        cause: FailureCause::invalid(format!("the rate is {}", javascript::format_number(rate))),
        stderr_tail: String::new(),
        replay: String::new(),
    }
}

/// Writes a session's throughput in `layout`, for the R scripts of Node.js and other tools.
///
/// In a scatter file, every row must have the same parameters as the first row.
///
/// # Errors
/// Fails if the rows have different parameters, or `out` cannot be written.
pub fn write(session: &Session, layout: &CsvLayout, out: &mut dyn std::io::Write) -> Result<()> {
    let mut rows = RowWriter::new(layout, out);
    session.runs.iter().try_for_each(|run| rows.add_run(run))?;
    rows.finish()
}

/// Incremental writer of rows.
pub struct RowWriter<'a> {
    layout: &'a CsvLayout,
    out: &'a mut dyn std::io::Write,
    has_header: bool,
}

impl<'a> RowWriter<'a> {
    /// Creates a writer for a file with this layout.
    pub fn new(layout: &'a CsvLayout, out: &'a mut dyn std::io::Write) -> RowWriter<'a> {
        RowWriter { layout, out, has_header: false }
    }

    /// Writes a row for each throughput sample of a run.
    ///
    /// # Errors
    /// Fails like [`write`].
    pub fn add_run(&mut self, run: &Run) -> Result<()> {
        let (name, values) = (&run.case.benchmark, &run.case.values);
        self.write_header(values)?;
        if let CsvLayout::Scatter { parameters } = self.layout
            && !values.iter().map(|(name, _)| name).eq(parameters)
        {
            bail!("'{}' has different parameters than the first row", run.case.id());
        }
        let is_throughput = |sample: &&Sample| &*sample.metric == Metric::THROUGHPUT;
        for sample in run.samples.iter().filter(is_throughput) {
            let measured = MeasuredRate { rate: sample.value, elapsed_ns: sample.elapsed_ns };
            let row = match self.layout {
                CsvLayout::Run => node_csv::format_run_row(name, values, measured),
                CsvLayout::Compare => {
                    node_csv::format_compare_row(&run.variant, name, values, measured)
                }
                CsvLayout::Scatter { .. } => node_csv::format_scatter_row(name, values, measured),
            };
            self.out.write_all(row.as_bytes())?;
        }
        Ok(())
    }

    /// Writes the header if there were no rows.
    ///
    /// # Errors
    /// Fails if `out` cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.write_header(&[])
    }

    fn write_header(&mut self, first: &[(String, ParameterValue)]) -> Result<()> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        let header = match self.layout {
            CsvLayout::Run => node_csv::RUN_HEADER.to_owned(),
            CsvLayout::Compare => node_csv::COMPARE_HEADER.to_owned(),
            CsvLayout::Scatter { .. } => node_csv::format_scatter_header(first),
        };
        Ok(self.out.write_all(header.as_bytes())?)
    }
}
