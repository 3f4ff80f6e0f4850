//! How large a page may get, and what is left out first. A browser shows a page of 20 MB, and a mail
//! server may still take it; one of 200 MB helps nobody.

/// Bytes for the charts of the gallery. One takes about 4 kB with 16 runs a side.
pub const CHARTS_BYTES: usize = 6 << 20;
/// Bytes for a chart that stands by itself.
pub const CHART_BYTES: usize = 1 << 20;
/// Rows of one table; each takes about 2 kB with its drawing.
pub const ROWS: usize = 4_000;
/// Bytes for the raw data.
pub const DATA_BYTES: usize = 8 << 20;
