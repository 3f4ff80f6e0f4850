//! Result files of the Node.js core benchmark drivers: `run.js`, `compare.js` and `scatter.js`.
//!
//! Decides how their CSV is read and written. Does not know how the figures are used. Start at
//! [`reader::Reader`] for individual rows, at [`sessions::read`] for a whole session, at [`rows`]
//! for writing. [`groups`] and [`frame`] are compact forms for tables of large files, without a
//! session in between.

use crate::formats::node_csv::record::{Field, Scan, scan};

pub mod frame;
pub mod groups;
pub mod javascript;
pub mod reader;
pub mod record;
pub mod rows;
pub mod sessions;

pub use frame::Frame;
pub use groups::{Groups, Side};
pub use reader::{Reader, Row};
pub use rows::Measured;

/// Columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
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

impl Layout {
    /// Returns the layout that a record announces, if it is a header.
    pub fn of_header(record: &[u8], fields: &[Field]) -> Option<Layout> {
        // Fast path: rows are far more frequent than headers and never begin with these words.
        if !matches!(fields.first()?.raw(record), b"binary" | b"filename") {
            return None;
        }
        let names: Vec<_> = fields.iter().map(|field| field.text(record)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        match names.as_slice() {
            ["binary", "filename", "configuration", "rate", "time"] => Some(Layout::Compare),
            ["filename", "configuration", "rate", "time"] => Some(Layout::Run),
            ["filename", parameters @ .., "rate", "time"] => Some(Layout::Scatter {
                parameters: parameters.iter().map(|&name| name.to_owned()).collect(),
            }),
            _ => None,
        }
    }

    /// Returns the number of columns per row.
    pub fn columns(&self) -> usize {
        match self {
            Layout::Run => 4,
            Layout::Compare => 5,
            Layout::Scatter { parameters } => parameters.len() + 3,
        }
    }
}

/// Returns the first header in `bytes`, which may begin with other text.
pub fn first_header(bytes: &[u8]) -> Option<Layout> {
    let mut fields = Vec::new();
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .find_map(|line| {
            let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            match scan(line, true, &mut fields) {
                Scan::Record(_) => Layout::of_header(line, &fields),
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
        let scatter = Layout::Scatter {
            parameters: vec!["n".into(), "len".into()],
        };
        for (header, layout) in [
            (
                "\"filename\", \"configuration\", \"rate\", \"time\"\n",
                Some(Layout::Run),
            ),
            (
                "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n",
                Some(Layout::Compare),
            ),
            (
                "\"binary\", \"filename\", \"configuration\", \"rate\", \"time\"",
                Some(Layout::Compare),
            ),
            (
                "\"filename\", \"n\", \"len\", \"rate\", \"time\"\r\n",
                Some(scatter),
            ),
            ("\"filename\", \"n\"\n", None),
            ("{\"id\": 1}\n", None),
            ("", None),
        ] {
            assert_eq!(first_header(header.as_bytes()), layout, "{header}");
        }
    }

    #[test]
    fn a_header_is_found_below_chatter_and_behind_a_byte_order_mark() {
        let header = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";
        assert_eq!(
            first_header(format!("> make bench\n{header}").as_bytes()),
            Some(Layout::Compare)
        );
        assert_eq!(
            first_header(format!("\u{feff}{header}").as_bytes()),
            Some(Layout::Compare)
        );
    }
}
