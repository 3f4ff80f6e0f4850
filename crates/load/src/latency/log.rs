//! Histograms as interval logs of HdrHistogram (format 1.3: V2 payload, deflate, base64), which
//! other programs read and write.

use super::{Distribution, Kind};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

/// Readers show the greatest value of a line divided by this: nanoseconds become milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Why a log cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A tag with a comma, a blank or a line break.
    #[error("the tag '{0}' has a character that a log does not allow")]
    Tag(String),
    /// A line that is not one of a log.
    #[error("byte {0} does not begin a line of a histogram log")]
    Line(usize),
    /// A payload that is no histogram.
    #[error("cannot read the histogram '{tag}': {why}")]
    Payload {
        /// The tag of its line, or nothing.
        tag: String,
        /// What was found.
        why: String,
    },
    /// A histogram that could not be encoded.
    #[error("cannot write the histogram '{tag}': {why}")]
    Write {
        /// The tag of its line.
        tag: String,
        /// What the encoder says.
        why: String,
    },
}

/// A line to be written.
#[derive(Debug)]
pub struct LogRow<'a> {
    tag: String,
    start_ns: u64,
    length_ns: u64,
    histogram: Cow<'a, Histogram<u64>>,
    beyond: u64,
    lower_bounds: u64,
}

impl<'a> LogRow<'a> {
    /// The times of an interval that begins `start_ns` after the start of the load; `part` says
    /// which they are, for instance the name of an outcome.
    pub fn new<K: Kind>(
        part: &str,
        start_ns: u64,
        length_ns: u64,
        times: &'a Distribution<K>,
    ) -> LogRow<'a> {
        LogRow {
            tag: format!("{}/{part}", K::NAME),
            start_ns,
            length_ns,
            histogram: times.histogram(),
            beyond: times.beyond(),
            lower_bounds: times.lower_bounds(),
        }
    }
}

/// Writes a log of a load that began `epoch_ms` after 1970. What the format has no place for is said
/// in comments.
///
/// # Errors
/// When a tag has a character that ends it.
pub fn write_log(epoch_ms: u64, rows: &[LogRow]) -> Result<String, LogError> {
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let begin = UNIX_EPOCH + Duration::from_millis(epoch_ms);
    let failed = |tag: &str, why: String| LogError::Write {
        tag: tag.to_owned(),
        why,
    };
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(begin)
        .with_base_time(begin)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|error| failed("", error.to_string()))?;
    for row in rows {
        let tag = Tag::new(&row.tag).ok_or_else(|| LogError::Tag(row.tag.clone()))?;
        if row.beyond + row.lower_bounds > 0 {
            let remark = format!(
                "[{}: {} values above 1 h are not in the histogram, {} are lower bounds]",
                row.tag, row.beyond, row.lower_bounds
            );
            writer
                .write_comment(&remark)
                .map_err(|error| failed(&row.tag, error.to_string()))?;
        }
        let (start, length) = (
            Duration::from_nanos(row.start_ns),
            Duration::from_nanos(row.length_ns),
        );
        writer
            .write_histogram(&row.histogram, start, length, Some(tag))
            .map_err(|error| failed(&row.tag, error.to_string()))?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Its tag, if it has one.
    pub tag: Option<String>,
    /// Its beginning, as the log has it: after the base time, or after 1970 without one.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
    histogram: Histogram<u64>,
}

impl Logged {
    /// The values, each as exact as its bin, so the mean is too. What kind they are of is for the
    /// caller to say; a value above an hour is counted as such.
    pub fn times<K: Kind>(&self) -> Distribution<K> {
        let mut times = Distribution::new();
        for bin in self.histogram.iter_recorded() {
            let middle_ns = self.histogram.median_equivalent(bin.value_iterated_to());
            times.record_n(middle_ns, bin.count_at_value());
        }
        times
    }
}

/// Reads a log, whoever wrote it. Comments are passed over.
///
/// # Errors
/// At the first line or payload that cannot be read.
pub fn read_log(text: &str) -> Result<Vec<Logged>, LogError> {
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let entry = entry.map_err(|error| {
            let hdrhistogram::serialization::interval_log::LogIteratorError::ParseError { offset } =
                error;
            LogError::Line(offset)
        })?;
        let LogEntry::Interval(line) = entry else {
            continue;
        };
        let tag = line.tag().map(|tag| tag.as_str().to_owned());
        found.push(Logged {
            histogram: decode(line.encoded_histogram()).map_err(|why| LogError::Payload {
                tag: tag.clone().unwrap_or_default(),
                why,
            })?,
            tag,
            start: line.start_timestamp(),
            length: line.duration(),
        });
    }
    Ok(found)
}

fn decode(payload: &str) -> Result<Histogram<u64>, String> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(payload)
        .map_err(|error| error.to_string())?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| error.to_string())
}
