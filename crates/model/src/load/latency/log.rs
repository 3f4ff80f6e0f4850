//! Writes and reads recorded times as an HdrHistogram interval log (format 1.3: V2 payload, deflate,
//! base64), which other programs can also read and write.

use super::TimeDistribution;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer as Payload, V2DeflateSerializer};
use std::time::{Duration, UNIX_EPOCH};

/// Divisor of the maximum in each line of a log. It converts nanoseconds to milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Why a log cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistogramLogError {
    /// A tag contains a comma, a blank or a line break.
    #[error("the tag '{0}' contains a character that histogram logs do not allow")]
    Tag(String),
    /// A line does not belong to a histogram log.
    #[error("invalid line at byte {0}: expected a line of a histogram log")]
    Line(usize),
    /// A payload is not a histogram.
    #[error("cannot read the histogram '{tag}': {why}")]
    Payload {
        /// Tag of the line, or empty.
        tag: String,
        /// The reason.
        why: String,
    },
    /// A histogram cannot be encoded.
    #[error("cannot write the histogram '{tag}': {why}")]
    Write {
        /// Tag of the line, or empty.
        tag: String,
        /// Message of the encoder.
        why: String,
    },
}

/// A line to write: the times of an interval.
#[derive(Debug)]
pub struct HistogramLogRow<'a> {
    /// The quantity and the subset of requests, as in `service/ok`.
    pub tag: String,
    /// Start of the interval, after the start of the load.
    pub start_ns: u64,
    /// Length of the interval.
    pub length_ns: u64,
    /// The times.
    pub times: &'a TimeDistribution,
}

/// Writes the log of a load that started `epoch_ms` milliseconds after the Unix epoch. What the
/// format cannot express, such as the number of values above its range, is written as comments.
///
/// # Errors
/// Fails if a tag contains an invalid character or a histogram cannot be encoded.
pub fn write_log(epoch_ms: u64, rows: &[HistogramLogRow]) -> Result<String, HistogramLogError> {
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let begin = UNIX_EPOCH + Duration::from_millis(epoch_ms);
    let failed = |tag: &str, why: String| HistogramLogError::Write { tag: tag.to_owned(), why };
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(begin)
        .with_base_time(begin)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|error| failed("", error.to_string()))?;
    for row in rows {
        let tag = Tag::new(&row.tag).ok_or_else(|| HistogramLogError::Tag(row.tag.clone()))?;
        let (beyond, lower_bounds) = (row.times.count_beyond_range(), row.times.lower_bounds());
        if beyond + lower_bounds > 0 {
            let remark = format!(
                "[{}: {beyond} values above 1 h are not in the histogram; {lower_bounds} values are lower bounds]",
                row.tag
            );
            writer.write_comment(&remark).map_err(|error| failed(&row.tag, error.to_string()))?;
        }
        let (start, length) =
            (Duration::from_nanos(row.start_ns), Duration::from_nanos(row.length_ns));
        writer
            .write_histogram(&row.times.to_histogram(), start, length, Some(tag))
            .map_err(|error| failed(&row.tag, error.to_string()))?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A parsed line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedHistogram {
    /// Tag, if any.
    pub tag: Option<String>,
    /// Start as written in the log. It is relative to the base time, or to the Unix epoch if the
    /// log has no base time.
    pub start: Duration,
    /// Length of the interval.
    pub length: Duration,
    histogram: Histogram<u64>,
}

impl LoggedHistogram {
    /// Returns the values at the resolution of their bins, so even the mean is not exact. The
    /// caller must know which quantity was logged. Values above an hour count as beyond the range.
    pub fn to_distribution(&self) -> TimeDistribution {
        let mut times = TimeDistribution::default();
        for bin in self.histogram.iter_recorded() {
            let middle_ns = self.histogram.median_equivalent(bin.value_iterated_to());
            times.record_n(middle_ns, bin.count_at_value());
        }
        times
    }
}

/// Reads a log written by any program. Skips comments.
///
/// # Errors
/// Fails at the first malformed line or payload.
pub fn read_log(text: &str) -> Result<Vec<LoggedHistogram>, HistogramLogError> {
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let entry = entry.map_err(|error| {
            let hdrhistogram::serialization::interval_log::LogIteratorError::ParseError { offset } =
                error;
            HistogramLogError::Line(offset)
        })?;
        let LogEntry::Interval(line) = entry else { continue };
        let tag = line.tag().map(|tag| tag.as_str().to_owned());
        found.push(LoggedHistogram {
            histogram: decode_histogram(line.encoded_histogram()).map_err(|why| {
                HistogramLogError::Payload { tag: tag.clone().unwrap_or_default(), why }
            })?,
            tag,
            start: line.start_timestamp(),
            length: line.duration(),
        });
    }
    Ok(found)
}

fn decode_histogram(payload: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(payload).map_err(|error| error.to_string())?;
    Payload::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
}
