//! Reads a results file, or stdin, as sessions.
//!
//! Decides how to report a file that cannot be read, or is only partly understood. Independent of
//! what the sessions are for. The entry point is [`read`].

use super::status;
use anyhow::{Context, Result, ensure};
use speedwell_harness::discover::similar_file;
use speedwell_model::Session;
use speedwell_results::formats::{self, FileFormat, InputFile, MetricDirections};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum size of a file; files are read into memory as a whole.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Warnings about files, with the files that each is about.
#[derive(Debug, Default)]
pub struct FileWarnings(Vec<(String, Vec<String>)>);

impl FileWarnings {
    /// Maximum number of files named in one warning.
    const MAX_NAMED_FILES: usize = 2;

    /// Adds a warning about the file `label`, which may prefix the sentence.
    pub fn add_warning(&mut self, label: &str, sentence: &str) {
        let about = format!("'{label}': ");
        let (files, text) = match sentence.strip_prefix(&about) {
            Some(text) => (vec![label.to_owned()], text),
            None => (Vec::new(), sentence),
        };
        match self.0.iter_mut().find(|(known, _)| known == text) {
            Some((_, known)) => known.extend(files),
            None => self.0.push((text.to_owned(), files)),
        }
    }

    /// Returns each warning once, with the files that it is about.
    fn warning_texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(text, files)| match &files[..] {
            [] => text.clone(),
            [only] => format!("'{only}': {text}"),
            [one, other] => format!("'{one}' and '{other}': {text}"),
            many => {
                let named = many[..Self::MAX_NAMED_FILES].join("', '");
                format!(
                    "'{named}' and {} more: {text}",
                    many.len() - Self::MAX_NAMED_FILES
                )
            }
        })
    }

    /// Prints the warnings on stderr.
    pub fn print_warnings(&self) {
        self.warning_texts()
            .for_each(|sentence| status::print_warning(&sentence));
    }
}

/// Reads the file at `place`, or stdin if that is `-`. Adds warnings about skipped content to
/// `remarks`.
///
/// # Errors
/// Fails if the file cannot be read or its content is not understood.
pub fn read(place: &Path, remarks: &mut FileWarnings) -> Result<Vec<Session>> {
    read_with(place, &MetricDirections::default(), remarks)
}

/// Like [`read`], with the user's directions of metrics.
///
/// # Errors
/// As for [`read`].
pub fn read_with(
    place: &Path,
    better: &MetricDirections,
    remarks: &mut FileWarnings,
) -> Result<Vec<Session>> {
    let label = place.display().to_string();
    let (bytes, format) = match label.as_str() {
        "-" => read_whole(std::io::stdin().lock()).context("cannot read stdin")?,
        _ => File::open(place)
            .map_err(anyhow::Error::from)
            .and_then(read_whole)
            .with_context(|| cannot_read(&label))?,
    };
    let mut warnings = Vec::new();
    let input = InputFile {
        label: &label,
        bytes: &bytes,
        better,
    };
    let sessions = formats::read_as_format(format, &input, &mut warnings)?;
    warnings
        .iter()
        .for_each(|warning| remarks.add_warning(&label, warning));
    Ok(sessions)
}

/// Reads a whole file that is known to be one, up to the usual limit.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_contents(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read the file '{}'", file.display()))?;
    Ok(bytes)
}

/// Reads the content, up to a limit, and detects its format. Reads only the beginning of an unknown
/// format, because a device may never end.
fn read_whole(mut from: impl Read) -> Result<(Vec<u8>, Option<&'static FileFormat>)> {
    let mut bytes = Vec::new();
    from.by_ref()
        .take(formats::BEGINNING_BYTES)
        .read_to_end(&mut bytes)?;
    let format = formats::detect_format(&bytes);
    if format.is_some() {
        let left = MAX_FILE_BYTES - bytes.len() as u64;
        from.take(left).read_to_end(&mut bytes)?;
        ensure!(
            (bytes.len() as u64) < MAX_FILE_BYTES,
            "it is larger than {} MiB\nhint: import it in parts",
            MAX_FILE_BYTES >> 20
        );
    }
    Ok((bytes, format))
}

fn cannot_read(label: &str) -> String {
    let hint = match similar_file(label, Path::new(".")) {
        Some(near) if !Path::new(label).exists() => format!("did you mean '{near}'?"),
        _ => "stored sessions are named @latest, @prev, @NUMBER or @TAG".to_owned(),
    };
    format!("cannot read the file '{label}'\nhint: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endless zeros that fail after more than this many bytes are read.
    struct EndlessZeros(u64);

    impl Read for EndlessZeros {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            into.fill(0);
            let count = into.len() as u64;
            self.0 = self
                .0
                .checked_sub(count)
                .expect("far more is read than is needed");
            Ok(into.len())
        }
    }

    #[test]
    fn of_something_unknown_only_the_beginning_is_read() {
        let (bytes, _) = read_whole(EndlessZeros(4 * formats::BEGINNING_BYTES)).unwrap();
        assert_eq!(bytes.len() as u64, formats::BEGINNING_BYTES);
        let told = formats::read("zero", &bytes).unwrap_err().to_string();
        assert!(told.starts_with("'zero' is a binary file"), "{told}");
    }

    #[test]
    fn a_mark_of_the_byte_order_changes_nothing() {
        let wrk = "Running 1s test @ http://127.0.0.1:8080/\n  1 threads and 2 connections\n  Thread Stats   Avg      \
                   Stdev     Max   +/- Stdev\n    Latency   100.00us   10.00us   1.00ms   90.00%\n    Req/Sec    \
                   10.00k     1.00k   11.00k    90.00%\n  10000 requests in 1.00s, 1.00MB read\nRequests/sec:  \
                   10000.00\nTransfer/sec:      1.00MB\n";
        let plain = formats::read("a", wrk.as_bytes()).unwrap();
        let marked = formats::read("a", format!("\u{feff}{wrk}").as_bytes()).unwrap();
        assert_eq!(plain[0].runs, marked[0].runs);
    }

    #[test]
    fn what_is_true_of_many_files_is_said_once() {
        let mut remarks = FileWarnings::default();
        for file in ["a", "b", "c", "d"] {
            remarks.add_warning(file, &format!("'{file}': a debug build"));
        }
        remarks.add_warning("b", "'b': has two dates");
        remarks.add_warning("c", "of no file");
        remarks.add_warning("d", "of no file");
        let told: Vec<String> = remarks.warning_texts().collect();
        let expected = [
            "'a', 'b' and 2 more: a debug build",
            "'b': has two dates",
            "of no file",
        ];
        assert_eq!(told, expected);
    }
}
