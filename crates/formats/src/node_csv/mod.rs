//! Reads and writes result files of Node.js core's drivers: `run.js`, `compare.js`, `scatter.js`.
//!
//! This module knows nothing about how the figures are used. Start at [`RowReader`] for individual
//! rows, at [`sessions::read`] for a whole session, and at [`rows`] for writing. [`groups`] and
//! [`frame`] hold the figures of large files compactly, for tables that need no session.

use crate::node_csv::record::{CsvField, ScanResult, scan_record};

pub mod frame;
pub mod groups;
pub mod javascript;
pub mod reader;
pub mod record;
pub mod rows;
pub mod sessions;

pub use frame::ScatterFrame;
pub use groups::{CompareRates, CompareSide};
pub use reader::{CsvRow, RowReader};
pub use rows::MeasuredRate;

/// Columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvLayout {
    /// `run.js --format csv`: filename, configuration, rate, time.
    Run,
    /// `compare.js`: binary, filename, configuration, rate, time.
    Compare,
    /// `scatter.js`: filename, one column per parameter, rate, time.
    Scatter {
        /// Parameters in column order.
        parameters: Vec<String>,
    },
}

impl CsvLayout {
    /// Returns the layout that a header defines; `None` if the record is not a header.
    pub fn from_header(record: &[u8], fields: &[CsvField]) -> Option<CsvLayout> {
        // Fast path: rows are far more frequent than headers and never begin with these words.
        if !matches!(fields.first()?.raw(record), b"binary" | b"filename") {
            return None;
        }
        let names: Vec<_> = fields.iter().map(|field| field.text(record)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        match names.as_slice() {
            ["binary", "filename", "configuration", "rate", "time"] => Some(CsvLayout::Compare),
            ["filename", "configuration", "rate", "time"] => Some(CsvLayout::Run),
            ["filename", parameters @ .., "rate", "time"] => Some(CsvLayout::Scatter {
                parameters: parameters.iter().map(|&name| name.to_owned()).collect(),
            }),
            _ => None,
        }
    }

    /// Returns the number of columns per row.
    pub fn column_count(&self) -> usize {
        match self {
            CsvLayout::Run => 4,
            CsvLayout::Compare => 5,
            CsvLayout::Scatter { parameters } => parameters.len() + 3,
        }
    }
}

/// Returns the layout that the first header in `bytes` defines. Other text may precede the header.
pub fn find_header(bytes: &[u8]) -> Option<CsvLayout> {
    let mut fields = Vec::new();
    bytes.split_inclusive(|&byte| byte == b'\n').find_map(|line| {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        match scan_record(line, true, &mut fields) {
            ScanResult::Record(_) => CsvLayout::from_header(line, &fields),
            _ => None,
        }
    })
}

/// UTF-8 byte order mark, which some editors prepend.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_is_known_by_its_header() {
        let scatter = CsvLayout::Scatter { parameters: vec!["n".into(), "len".into()] };
        for (header, layout) in [
            ("\"filename\", \"configuration\", \"rate\", \"time\"\n", Some(CsvLayout::Run)),
            (
                "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n",
                Some(CsvLayout::Compare),
            ),
            (
                "\"binary\", \"filename\", \"configuration\", \"rate\", \"time\"",
                Some(CsvLayout::Compare),
            ),
            ("\"filename\", \"n\", \"len\", \"rate\", \"time\"\r\n", Some(scatter)),
            ("\"filename\", \"n\"\n", None),
            ("{\"id\": 1}\n", None),
            ("", None),
        ] {
            assert_eq!(find_header(header.as_bytes()), layout, "{header}");
        }
    }

    #[test]
    fn a_header_is_found_below_chatter_and_after_a_byte_order_mark() {
        let header = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";
        assert_eq!(
            find_header(format!("> make bench\n{header}").as_bytes()),
            Some(CsvLayout::Compare)
        );
        assert_eq!(find_header(format!("\u{feff}{header}").as_bytes()), Some(CsvLayout::Compare));
    }
}
