//! Reads and writes Speedwell's exchange format: the whole content of a session as JSON Lines.
//!
//! The first line of a session is its header, `{"speedwell":"session","version":1,...}`. Then there
//! is one line per run (`{"run":{...}}`), failure (`{"failure":{...}}`) and profile
//! (`{"profile":{...}}`). A file may hold several sessions, so files can be joined with `cat`. The
//! format is lossless: a database can be rebuilt from such files. Start with [`HeaderLine`] and
//! [`FileLine`], which define the format.
//!
//! Compatibility: a reader ignores unknown keys and kinds of lines. A change that would make older
//! readers misread a file gets a new version, and older readers reject it.

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use speedwell_model::{
    Case, CodeOrigin, Environment, KernelStats, Metric, NoiseCalibration, ParameterValue,
    ProfileOutcome, ProfileRecording, ResourceUsage, Run, Sample, Session, SessionDesign,
    SessionMachine, SessionState, StepFailure, Variant,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{BufRead, Write};
use std::sync::Arc;

/// Writes `session` as lines. `out` should be buffered, because it receives many small writes.
///
/// The session's local number and its plan are not part of the format, because they have no meaning
/// in another store.
///
/// # Errors
/// Fails if `out` cannot be written, or the header contains a number that is not finite.
pub fn write(session: &Session, out: &mut dyn Write) -> Result<()> {
    write_streaming((session, session.runs.len()), out, |each| {
        session.runs.iter().try_for_each(each)
    })
}

/// Writes a session with the runs that `runs` supplies, so that the runs need not all be in memory.
/// `runs` calls its argument once for each of the `count` runs. The runs in `session` itself are
/// ignored.
///
/// # Errors
/// Fails like [`write`], or if `runs` fails.
pub fn write_streaming(
    (session, count): (&Session, usize),
    out: &mut dyn Write,
    runs: impl FnOnce(&mut dyn FnMut(&Run) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let header = serde_json::to_string(&HeaderLine {
        speedwell: "session".to_owned(),
        // A reader of version 1 would attribute the runs of all machines to one machine.
        version: if session.machines.len() > 1 { 2 } else { 1 },
        id: session.id.clone(),
        started_unix_ms: session.started_unix_ms,
        state: session.state,
        tags: session.tags.clone(),
        command: session.command.clone(),
        design: session.design.clone(),
        variants: session.variants.clone(),
        metrics: session.metrics.clone(),
        environment: session.environment.clone(),
        origin: session.origin.clone(),
        calibration: session.calibration,
        runs: Some(count),
        failures: Some(session.failures.len()),
        profiles: (!session.profiles.is_empty()).then_some(session.profiles.len()),
        machines: session.machines.clone(),
    })?;
    serde_json::from_str::<HeaderLine>(&header)
        .with_context(|| format!("cannot write the header of the session: {header}"))?;
    writeln!(out, "{header}")?;
    let mut write = |line: FileLine<'_>| -> Result<()> {
        serde_json::to_writer(&mut *out, &line)?;
        Ok(out.write_all(b"\n")?)
    };
    runs(&mut |run| write(FileLine { run: Some(run_line(run)?), ..FileLine::default() }))?;
    for failure in &session.failures {
        write(FileLine { failure: Some(Cow::Borrowed(failure)), ..FileLine::default() })?;
    }
    for recording in &session.profiles {
        write(FileLine { profile: Some(profile_line(recording)), ..FileLine::default() })?;
    }
    Ok(())
}

pub(crate) fn run_line(run: &Run) -> serde_json::Result<RunLine<'_>> {
    let samples = run.samples.iter().map(|sample| SampleLine {
        metric: Cow::Borrowed(&sample.metric),
        value: JsonNumber(sample.value),
        elapsed_ns: sample.elapsed_ns,
        iterations: sample.iterations.map(JsonNumber),
    });
    Ok(RunLine {
        benchmark: Cow::Borrowed(&run.case.benchmark),
        parameters: json_parameters(&run.case),
        variant: Cow::Borrowed(&run.variant),
        slot: run.slot,
        block: run.block,
        build: run.build,
        started_unix_ms: run.started_unix_ms,
        wall_ns: run.wall_ns,
        usage: run.usage,
        kernel_stats: run.kernel_stats,
        rejected_by: run.rejected_by.as_deref().map(Cow::Borrowed),
        machine: run.machine,
        samples: samples.collect(),
        notes: Cow::Borrowed(&run.notes),
        load: run.load.as_deref().map(serde_json::from_str).transpose()?,
    })
}

fn profile_line(recording: &ProfileRecording) -> ProfileLine<'_> {
    ProfileLine {
        benchmark: Cow::Borrowed(&recording.case.benchmark),
        parameters: json_parameters(&recording.case),
        variant: Cow::Borrowed(&recording.variant),
        profile: recording.profile.clone(),
    }
}

/// Returns the parameters in the order in which the benchmark reported them. A number that is not
/// finite becomes text, because JSON cannot express it. The text has the canonical form of the
/// number, so the id of the case stays the same.
pub fn json_parameters(case: &Case) -> Cow<'_, [(String, ParameterValue)]> {
    let is_not_finite =
        |value: &ParameterValue| value.as_number().is_some_and(|number| !number.is_finite());
    if !case.values.iter().any(|(_, value)| is_not_finite(value)) {
        return Cow::Borrowed(&case.values);
    }
    let mut values = case.values.clone();
    for (_, value) in values.iter_mut().filter(|(_, value)| is_not_finite(value)) {
        *value = ParameterValue::Text(value.to_string());
    }
    Cow::Owned(values)
}

/// Reads all sessions in `text`.
///
/// # Errors
/// Fails if a line is invalid (the message names it), if the file is truncated, or if a newer
/// version wrote the file.
pub fn read(text: &str) -> Result<Vec<Session>> {
    read_from(text.as_bytes())
}

/// Reads all sessions from `input` line by line, without loading its whole text into memory.
///
/// # Errors
/// Fails like [`read`], or if `input` fails.
pub fn read_from(mut input: impl BufRead) -> Result<Vec<Session>> {
    let mut reader = StreamingReader::default();
    let mut sessions: Vec<Session> = Vec::new();
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            break;
        }
        let text = line.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.trim().is_empty() {
            continue;
        }
        let parsed = reader.read_line(text, number).with_context(|| format!("line {number}"))?;
        sessions.extend(parsed.header.map(|header| *header));
        if let Some(session) = sessions.last_mut() {
            session.runs.extend(parsed.run);
            session.failures.extend(parsed.failure);
            session.profiles.extend(parsed.profile);
        }
    }
    reader.check_complete()?;
    ensure!(!sessions.is_empty(), "it contains no session");
    Ok(sessions)
}

/// Reads only the header of a session. The lines that the header announces need not follow.
///
/// # Errors
/// Fails if the line is not a header, or was written by a newer version.
pub fn read_header(line: &str) -> Result<Session> {
    let parsed = StreamingReader::default().read_line(line.trim_end(), 1).context("line 1")?;
    parsed.header.map(|header| *header).context("line 1: the header of a session is missing")
}

/// Reads a series of sessions line by line, without keeping their runs in memory.
#[derive(Debug, Default)]
pub struct StreamingReader {
    /// The announced counts and the line number of the last header; `None` before the first header.
    announced: Option<([Option<usize>; 3], usize)>,
    /// Number of runs, failures and profiles since the last header.
    counts: [usize; 3],
    machines: u32,
    /// Slot (position in the plan) of the first run whose machine the last header does not list.
    stray: Option<u32>,
    shared: InternedNames,
}

/// Content of a line.
#[derive(Debug, Default)]
pub struct ParsedLine {
    /// Header of a new session.
    pub header: Option<Box<Session>>,
    /// A run of the current session.
    pub run: Option<Run>,
    /// A failure of the current session.
    pub failure: Option<StepFailure>,
    /// A profile of the current session.
    pub profile: Option<ProfileRecording>,
}

/// Interns names and cases, so that all runs share one copy of each.
#[derive(Debug, Default)]
pub struct InternedNames {
    names: HashSet<Arc<str>>,
    cases: HashMap<String, Vec<Arc<Case>>>,
}

impl StreamingReader {
    /// Parses the next line. `number` is its line number.
    ///
    /// # Errors
    /// Fails if the line is invalid, or the previous session is incomplete.
    pub fn read_line(&mut self, text: &str, number: usize) -> Result<ParsedLine> {
        let line: FileLine<'_> = parse_line(text)?;
        if let Some(kind) = line.speedwell {
            self.check_complete()?;
            let header = self.read_header_line(text, number, &kind, line.version)?;
            return Ok(ParsedLine { header: Some(Box::new(header)), ..ParsedLine::default() });
        }
        if self.announced.is_none() {
            bail!("the header of a session, {{\"speedwell\":\"session\",...}}, is missing");
        }
        let parsed = ParsedLine {
            header: None,
            run: line.run.map(|run| self.shared.convert_run(run)),
            failure: line.failure.map(Cow::into_owned),
            profile: line.profile.map(|line| ProfileRecording {
                case: Case::new(line.benchmark, line.parameters.into_owned()),
                variant: line.variant.into_owned(),
                profile: line.profile,
            }),
        };
        if let Some(run) = &parsed.run
            && run.machine.is_some_and(|machine| machine >= self.machines)
        {
            self.stray = self.stray.or(Some(run.slot));
        }
        self.counts[0] += usize::from(parsed.run.is_some());
        self.counts[1] += usize::from(parsed.failure.is_some());
        self.counts[2] += usize::from(parsed.profile.is_some());
        Ok(parsed)
    }

    fn read_header_line(
        &mut self,
        text: &str,
        number: usize,
        kind: &str,
        version: Option<u64>,
    ) -> Result<Session> {
        ensure!(kind == "session", "unknown kind of data '{kind}': expected 'session'");
        let version = version.context("the version is missing")?;
        ensure!(
            version <= MAX_VERSION,
            "it was written by a newer speedwell (format {version}; this one reads up to {MAX_VERSION})\n\
             hint: update speedwell"
        );
        let header: HeaderLine = parse_line(text)?;
        self.announced = Some(([header.runs, header.failures, header.profiles], number));
        self.counts = [0; 3];
        self.machines = header.machines.len() as u32;
        self.stray = None;
        let started_unix_ms = header.started_unix_ms;
        let calibration = header.calibration;
        Ok(Session {
            id: header.id,
            started_unix_ms,
            state: header.state,
            tags: header.tags,
            command: header.command,
            design: header.design,
            variants: header.variants,
            metrics: header.metrics,
            environment: header.environment,
            origin: header.origin,
            calibration: calibration.map(|counts| NoiseCalibration { started_unix_ms, ..counts }),
            machines: header.machines,
            ..Session::default()
        })
    }

    /// Checks that the last session is complete.
    ///
    /// # Errors
    /// Fails if the session is incomplete, or if it does not list the machine of one of its runs.
    pub fn check_complete(&self) -> Result<()> {
        let Some((announced, header_line)) = self.announced else { return Ok(()) };
        if let Some(slot) = self.stray {
            bail!(
                "line {header_line}: the session has {} machines, but the run of slot {slot} belongs to none of them",
                self.machines
            );
        }
        let kinds = ["runs", "failures", "profiles"].into_iter().zip(announced);
        for ((kind, announced), found) in kinds.zip(self.counts) {
            if let Some(announced) = announced.filter(|&announced| announced != found) {
                bail!(
                    "line {header_line} announces {announced} {kind}, but {found} follow\n\
                     hint: is the file cut short?"
                );
            }
        }
        Ok(())
    }
}

impl InternedNames {
    /// Converts a line into a run.
    pub(crate) fn convert_run(&mut self, line: RunLine<'_>) -> Run {
        let case = self.intern_case(Case::new(line.benchmark, line.parameters.into_owned()));
        let variant = self.intern_name(&line.variant);
        let samples = line.samples.into_iter().map(|sample| Sample {
            metric: self.intern_name(&sample.metric),
            value: sample.value.0,
            elapsed_ns: sample.elapsed_ns,
            iterations: sample.iterations.map(|number| number.0),
        });
        Run {
            case,
            variant,
            slot: line.slot,
            block: line.block,
            build: line.build,
            started_unix_ms: line.started_unix_ms,
            wall_ns: line.wall_ns,
            usage: line.usage,
            kernel_stats: line.kernel_stats,
            rejected_by: line.rejected_by.map(Cow::into_owned),
            machine: line.machine,
            samples: samples.collect(),
            notes: line.notes.into_owned(),
            load: line.load.map(|load| load.get().into()),
        }
    }

    fn intern_case(&mut self, case: Case) -> Arc<Case> {
        // Cases with the same id may list their parameters in different orders.
        let same_id = self.cases.entry(case.id()).or_default();
        if let Some(interned) = same_id.iter().find(|same_id| ***same_id == case) {
            return interned.clone();
        }
        same_id.push(Arc::new(case));
        same_id[same_id.len() - 1].clone()
    }

    /// Returns the shared copy of a name.
    pub fn intern_name(&mut self, name: &str) -> Arc<str> {
        if let Some(interned) = self.names.get(name) {
            return interned.clone();
        }
        let name: Arc<str> = name.into();
        self.names.insert(name.clone());
        name
    }
}

/// Parses one line. Error messages omit the parser's line number, which is always 1.
fn parse_line<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| {
        let message = error.to_string();
        let reason = message.split(" at line 1 column").next();
        anyhow!("{} (column {})", reason.unwrap_or_default(), error.column())
    })
}

/// Highest version that can be read.
const MAX_VERSION: u64 = 2;

/// A line of any kind. The key that is present determines the kind: `speedwell`, `run`, `failure`
/// or `profile`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct FileLine<'a> {
    /// `session` marks a header; the rest of the line is a [`HeaderLine`].
    #[serde(skip_serializing)]
    pub speedwell: Option<String>,
    #[serde(skip_serializing)]
    pub version: Option<u64>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunLine<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Cow<'a, StepFailure>>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileLine<'a>>,
}

#[derive(Serialize, Deserialize)]
struct HeaderLine {
    pub speedwell: String,
    pub version: u64,
    pub id: String,
    pub started_unix_ms: i64,
    pub state: SessionState,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub command: Vec<String>,
    pub design: SessionDesign,
    pub variants: Vec<Variant>,
    pub metrics: Vec<Metric>,
    #[serde(default)]
    pub environment: Environment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CodeOrigin>,
    /// Result of a session that measured how often comparisons on its machine give a false alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<NoiseCalibration>,
    /// Number of runs that follow; absent if the writer is still measuring. This count and the next
    /// two reveal truncated files.
    pub runs: Option<usize>,
    pub failures: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<usize>,
    /// Machines of the session; empty if the session was measured on the machine that wrote the
    /// file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<SessionMachine>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RunLine<'a> {
    #[serde(borrow)]
    pub benchmark: Cow<'a, str>,
    /// Name and value of every parameter, in the order in which the benchmark reported them.
    #[serde(default)]
    pub parameters: Cow<'a, [(String, ParameterValue)]>,
    #[serde(borrow)]
    pub variant: Cow<'a, str>,
    pub slot: u32,
    #[serde(default)]
    pub block: u32,
    /// Which build of the variant the run executed; absent if there is only one build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<u32>,
    #[serde(default)]
    pub started_unix_ms: i64,
    #[serde(default)]
    pub wall_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ResourceUsage>,
    #[serde(default, alias = "surroundings", skip_serializing_if = "Option::is_none")]
    pub kernel_stats: Option<KernelStats>,
    /// Rule by which the run was rejected as disturbed.
    #[serde(default, borrow, alias = "disturbed", skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<Cow<'a, str>>,
    /// Index into the header's `machines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<u32>,
    #[serde(borrow)]
    pub samples: Vec<SampleLine<'a>>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub notes: Cow<'a, [String]>,
    /// Details of the HTTP load in their stored form, if the run is an HTTP load.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub load: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
struct ProfileLine<'a> {
    #[serde(borrow)]
    pub benchmark: Cow<'a, str>,
    /// As in [`RunLine`].
    #[serde(default)]
    pub parameters: Cow<'a, [(String, ParameterValue)]>,
    #[serde(borrow)]
    pub variant: Cow<'a, str>,
    #[serde(flatten)]
    pub profile: ProfileOutcome,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SampleLine<'a> {
    #[serde(borrow)]
    pub metric: Cow<'a, str>,
    pub value: JsonNumber,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<JsonNumber>,
}

/// A number that may be infinite or NaN. JSON cannot express such numbers, so they are written as
/// the strings that JavaScript prints for them, such as `"Infinity"`.
#[derive(Clone, Copy)]
pub(crate) struct JsonNumber(pub f64);

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            number if number.is_finite() => out.serialize_f64(number),
            number if number.is_nan() => out.serialize_str("NaN"),
            number if number > 0.0 => out.serialize_str("Infinity"),
            _ => out.serialize_str("-Infinity"),
        }
    }
}

impl<'de> Deserialize<'de> for JsonNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<JsonNumber, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = JsonNumber;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }
            fn visit_f64<E>(self, number: f64) -> Result<JsonNumber, E> {
                Ok(JsonNumber(number))
            }
            fn visit_i64<E>(self, number: i64) -> Result<JsonNumber, E> {
                Ok(JsonNumber(number as f64))
            }
            fn visit_u64<E>(self, number: u64) -> Result<JsonNumber, E> {
                Ok(JsonNumber(number as f64))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<JsonNumber, E> {
                match word {
                    "NaN" => Ok(JsonNumber(f64::NAN)),
                    "Infinity" => Ok(JsonNumber(f64::INFINITY)),
                    "-Infinity" => Ok(JsonNumber(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }
        from.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"speedwell":"session","version":1,"id":"x","started_unix_ms":0,"state":"complete","#,
        r#""design":{"order":"blocks","stopping":{"kind":"fixed","runs":8},"baseline":"a","#,
        r#""seed":1,"runs_per_block":2},"variants":[],"metrics":[]}"#
    );

    fn error_text(text: &str) -> String {
        format!("{:#}", read(text).map(|_| "read").unwrap_err())
    }

    #[test]
    fn a_file_written_by_hand_needs_only_what_cannot_be_guessed() {
        let run = r#"{"run":{"benchmark":"g/b","parameters":[["len",16]],"variant":"a","slot":3,
            "samples":[{"metric":"t","value":1},{"metric":"t","value":"-Infinity"}]}}"#
            .replace('\n', "");
        let sessions = read(&format!("\u{feff}{HEADER}\r\n\n{run}\n")).unwrap();
        let run = &sessions[0].runs[0];
        assert_eq!(run.case.id(), "g/b len=16");
        let values: Vec<f64> = run.samples.iter().map(|sample| sample.value).collect();
        assert_eq!((run.slot, values), (3, vec![1.0, f64::NEG_INFINITY]));
    }

    #[test]
    fn unknown_keys_and_lines_are_ignored() {
        let header = HEADER.replace(r#""id""#, r#""mood":"good","id""#);
        let failure = concat!(
            r#"{"failure":{"step":"run","benchmark":"g/b","cause":{"kind":"silent"},"#,
            r#""stderr_tail":"","replay":"","colour":"red"}}"#
        );
        let sessions = read(&format!("{header}\n{{\"weather\":{{}}}}\n{failure}")).unwrap();
        assert_eq!(sessions[0].failures.len(), 1);
    }

    #[test]
    fn a_newer_version_is_refused_with_both_numbers() {
        let newer = HEADER.replace(r#""version":1"#, r#""version":7"#);
        let message = error_text(&format!("{HEADER}\n{newer}"));
        assert!(message.starts_with("line 2: ") && message.contains("format 7"), "{message}");
        assert!(message.contains("hint: update speedwell"), "{message}");
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let message = error_text(&format!("{HEADER}\n{{\"run\":{{\"benchmark\":5}}}}"));
        assert!(message.starts_with("line 2: ") && message.contains("(column 21)"), "{message}");
        assert!(!message.contains("at line 1"), "{message}");
        let bad_number = r#"{"run":{"benchmark":"b","variant":"a","slot":0,
            "samples":[{"metric":"t","value":"fast"}]}}"#
            .replace('\n', "");
        let message = error_text(&format!("{HEADER}\n\n{bad_number}"));
        assert!(message.starts_with("line 3: ") && message.contains("\"fast\""), "{message}");
    }

    #[test]
    fn a_run_before_any_header_is_refused() {
        assert!(error_text("{\"cpu\":1}").contains("line 1: the header of a session"));
        assert!(error_text("").contains("no session"));
        assert!(error_text("{\"speedwell\":\"plan\"}").contains("'plan'"));
    }

    #[test]
    fn a_file_cut_short_is_noticed() {
        let header = HEADER.replace(r#""id""#, r#""runs":2,"failures":0,"id""#);
        let message = error_text(&format!("{HEADER}\n{header}"));
        assert!(message.contains("line 2 announces 2 runs, but 0 follow"), "{message}");
    }
}
