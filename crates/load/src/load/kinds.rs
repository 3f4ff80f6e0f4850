//! Defines the requests of a load as templates: one kind of request, or several in fixed
//! proportions, optionally filled from a data table.

use super::HttpVersion;
use crate::http1::{ConnectionOption, Http1Request, Http1Version, InvalidRequest, RequestParts};
use crate::http2::{Http2Request, UrlScheme};
#[cfg(feature = "http3")]
use crate::http3::H3Request;

/// A data table whose rows are used in turn, one per request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataTable {
    /// Column names.
    pub names: Vec<String>,
    /// Rows, with one value per column.
    pub values: Vec<Vec<String>>,
}

impl DataTable {
    /// Returns the value of a column in row `index`, modulo the number of rows.
    pub fn cell_text(&self, index: u64, name: &str) -> Option<&str> {
        let column = self.names.iter().position(|candidate| candidate == name)?;
        let row = usize::try_from(index % self.values.len() as u64).ok()?;
        self.values[row].get(column).map(String::as_str)
    }
}

/// Why a set of request kinds is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindsError {
    /// No request has a weight, or there are more kinds than an index can hold.
    #[error("no request to send")]
    None,
    /// A request cannot be encoded.
    #[error("'{name}': {why}")]
    Request {
        /// Name of the kind.
        name: String,
        /// The reason.
        why: InvalidRequest,
    },
    /// A placeholder has no matching column in the table.
    #[error("'{name}' has the placeholder '{{{{{blank}}}}}', but the table has no such column")]
    Blank {
        /// Name of the kind.
        name: String,
        /// Name of the placeholder.
        blank: String,
    },
    /// A row does not have exactly one value for each column.
    #[error("row {0} of the table does not have exactly one value for each column")]
    Row(usize),
    /// The weights would require too long a cycle.
    #[error("the request weights add up to {0} after division by their greatest common divisor: expected at most {limit}", limit = RequestKinds::LONGEST_CYCLE)]
    Weights(u64),
}

/// The validated request kinds of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKinds {
    kinds: Vec<RequestKind>,
    rows: DataTable,
    order: Vec<CycleSlot>,
}

/// A slot in the cycle of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CycleSlot {
    kind: u16,
    /// Number of slots of this kind per cycle.
    share: u32,
    /// How many slots of this kind precede this slot in the cycle.
    before: u32,
}

impl RequestKinds {
    /// Maximum length of the cycle of kinds, in requests.
    pub const LONGEST_CYCLE: u64 = 10_000;

    /// Validates the kinds. Placeholders in braces are filled from the rows of the table. Without
    /// rows, braces are ordinary text.
    ///
    /// # Errors
    /// Fails if a kind cannot be sent as specified.
    pub fn new(kinds: Vec<RequestKind>, rows: DataTable) -> Result<RequestKinds, KindsError> {
        let short = |row: &Vec<String>| row.len() != rows.names.len();
        if let Some(index) = rows.values.iter().position(short) {
            return Err(KindsError::Row(index + 1));
        }
        let order = interleave_kinds(&kinds.iter().map(|kind| kind.weight).collect::<Vec<_>>())?;
        for kind in kinds.iter().filter(|_| !rows.values.is_empty()) {
            let unknown = |blank: &String| !rows.names.contains(blank);
            if let Some(blank) = kind.placeholder_names().into_iter().find(unknown) {
                return Err(KindsError::Blank { name: kind.name.clone(), blank });
            }
        }
        let kinds = RequestKinds { kinds, rows, order };
        // Try every row now, so that a bad row does not cause a failure in the middle of the load.
        encode_kinds(&kinds, Http1Request::new)?;
        Ok(kinds)
    }

    /// A single, constant kind.
    ///
    /// # Errors
    /// See [`RequestKinds::new`].
    pub fn single(kind: RequestKind) -> Result<RequestKinds, KindsError> {
        RequestKinds::new(vec![kind], DataTable::default())
    }

    /// The kinds in their original order.
    pub fn kinds(&self) -> &[RequestKind] {
        &self.kinds
    }

    /// Whether requests of this kind depend on the row of the table.
    pub fn is_variable(&self, kind: u16) -> bool {
        let template = &self.kinds[usize::from(kind)];
        !self.rows.values.is_empty() && !template.placeholder_names().is_empty()
    }

    /// Returns the kind of request number `index`.
    pub fn kind_at(&self, index: u64) -> u16 {
        match self.order.as_slice() {
            [only] => only.kind,
            order => order[(index % order.len() as u64) as usize].kind,
        }
    }

    /// Returns the table row for request number `index`. Each kind goes through the table
    /// separately. Otherwise, with an even number of rows, two alternating kinds would each use
    /// only half of the rows.
    pub fn row_at(&self, index: u64) -> u64 {
        let cycle = self.order.len() as u64;
        let turn = self.order[(index % cycle) as usize];
        index / cycle * u64::from(turn.share) + u64::from(turn.before)
    }

    /// Returns a kind with its placeholders filled from row `row` of the table.
    pub fn fill_from_row(&self, kind: u16, row: u64) -> RequestKind {
        let plain = &self.kinds[usize::from(kind)];
        if self.rows.values.is_empty() {
            return plain.clone();
        }
        plain.fill_placeholders(|name| self.rows.cell_text(row, name).map(str::to_owned))
    }
}

/// Orders the kinds within a cycle. Each slot gets the kind that is furthest behind its share. No
/// kind then comes in bursts, and every cycle has the exact proportions.
fn interleave_kinds(weights: &[u32]) -> Result<Vec<CycleSlot>, KindsError> {
    let divisor = weights.iter().fold(0, |a, b| common_divisor(a, *b));
    if divisor == 0 || weights.len() > usize::from(u16::MAX) {
        return Err(KindsError::None);
    }
    let shares: Vec<i64> = weights.iter().map(|w| i64::from(w / divisor)).collect();
    let cycle: i64 = shares.iter().sum();
    if cycle as u64 > RequestKinds::LONGEST_CYCLE {
        return Err(KindsError::Weights(cycle as u64));
    }
    let mut credit = vec![0i64; shares.len()];
    let mut used = vec![0; shares.len()];
    let mut order = Vec::new();
    for _ in 0..cycle {
        for (credit, share) in credit.iter_mut().zip(&shares) {
            *credit += share;
        }
        // The last maximum of the reversed indices is the first maximum.
        let first = (0..credit.len()).rev().max_by_key(|index| credit[*index]).unwrap_or(0);
        credit[first] -= cycle;
        order.push(CycleSlot {
            kind: first as u16,
            share: shares[first] as u32,
            before: used[first],
        });
        used[first] += 1;
    }
    Ok(order)
}

fn common_divisor(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => common_divisor(b, a % b),
    }
}

// The code below encodes all requests before the load starts.
//
// A data table is finite, so each row is encoded once for each kind of request that has
// placeholders. During the measurement, sending then takes the same steps for all requests and,
// with HTTP/1 and HTTP/2, does not allocate.

/// Encoded requests, by kind and by row of the data table.
pub(crate) struct RequestSource<'a> {
    pub kinds: &'a RequestKinds,
    http1: Vec<Vec<Http1Request>>,
    http2: Vec<Vec<Http2Request>>,
    #[cfg(feature = "http3")]
    http3: Vec<Vec<H3Request>>,
}

impl<'a> RequestSource<'a> {
    /// Encodes all requests of a load.
    ///
    /// # Errors
    /// Fails if a request cannot be encoded.
    pub fn new(
        kinds: &'a RequestKinds,
        http: HttpVersion,
        scheme: UrlScheme,
    ) -> Result<RequestSource<'a>, KindsError> {
        let mut source = RequestSource {
            kinds,
            http1: Vec::new(),
            http2: Vec::new(),
            #[cfg(feature = "http3")]
            http3: Vec::new(),
        };
        match http {
            HttpVersion::One => source.http1 = encode_kinds(kinds, Http1Request::new)?,
            HttpVersion::Two { .. } => {
                source.http2 = encode_kinds(kinds, |parts| Http2Request::new(parts, scheme))?;
            }
            #[cfg(feature = "http3")]
            HttpVersion::Three => source.http3 = encode_kinds(kinds, H3Request::new)?,
            #[cfg(not(feature = "http3"))]
            HttpVersion::Three => {}
        }
        Ok(source)
    }

    /// Returns request number `index` encoded for HTTP/1.
    pub fn http1_request(&self, kind: u16, index: u64) -> &Http1Request {
        self.select_row(&self.http1[usize::from(kind)], index)
    }

    /// Returns request number `index` encoded for HTTP/2.
    pub fn http2_request(&self, kind: u16, index: u64) -> &Http2Request {
        self.select_row(&self.http2[usize::from(kind)], index)
    }

    /// Returns request number `index` prepared for HTTP/3.
    #[cfg(feature = "http3")]
    pub fn http3_request(&self, kind: u16, index: u64) -> &H3Request {
        self.select_row(&self.http3[usize::from(kind)], index)
    }

    fn select_row<'b, T>(&self, rows: &'b [T], index: u64) -> &'b T {
        match rows {
            [only] => only,
            rows => &rows[(self.kinds.row_at(index) % rows.len() as u64) as usize],
        }
    }
}

/// Encodes each kind: once for each row of the table if it has placeholders, otherwise once.
fn encode_kinds<T>(
    kinds: &RequestKinds,
    encode: impl Fn(&RequestParts) -> Result<T, InvalidRequest>,
) -> Result<Vec<Vec<T>>, KindsError> {
    let encode_kind = |(kind, index): (&RequestKind, u16)| {
        let rows = if kinds.is_variable(index) { kinds.rows.values.len() } else { 1 };
        let filled = (0..rows as u64).map(|row| kinds.fill_from_row(index, row));
        let encoded = filled.map(|kind| kind.with_parts(&encode)).collect::<Result<Vec<T>, _>>();
        encoded.map_err(|why| KindsError::Request { name: kind.name.clone(), why })
    };
    kinds.kinds().iter().zip(0..).map(encode_kind).collect()
}

// A kind of request, with optional `{{name}}` placeholders.

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKind {
    /// Name in reports.
    pub name: String,
    /// Relative frequency.
    pub weight: u32,
    /// Method.
    pub method: String,
    /// Request target: path and query, or the form that a proxy expects.
    pub target: String,
    /// Value of Host and `:authority`.
    pub host: String,
    /// Additional header fields.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body.
    pub body: Option<Vec<u8>>,
    /// HTTP/1 version.
    pub version: Http1Version,
    /// Whether to keep the connection open.
    pub connection: ConnectionOption,
}

impl RequestKind {
    /// Creates a plain GET request.
    pub fn get(host: &str, target: &str) -> RequestKind {
        RequestKind {
            name: format!("GET {target}"),
            weight: 1,
            method: "GET".to_owned(),
            target: target.to_owned(),
            host: host.to_owned(),
            headers: Vec::new(),
            body: None,
            version: Http1Version::Http11,
            connection: ConnectionOption::KeepAlive,
        }
    }

    /// Calls `with` with the borrowed parts.
    pub fn with_parts<T>(&self, with: impl FnOnce(&RequestParts) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        with(&RequestParts {
            method: &self.method,
            target: &self.target,
            host: &self.host,
            headers: &headers,
            body: self.body.as_deref(),
            version: self.version,
            connection: self.connection,
        })
    }

    /// Names of the placeholders in the target, the header values and the body.
    fn placeholder_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.fill_placeholders(|name| {
            names.push(name.to_owned());
            None
        });
        names
    }

    /// Returns this kind with its placeholders filled from `fill`; placeholders with unknown names
    /// stay as they are.
    fn fill_placeholders(&self, mut fill: impl FnMut(&str) -> Option<String>) -> RequestKind {
        let mut bytes = |text: &[u8]| expand_template(text, &mut fill);
        let headers = self.headers.iter();
        RequestKind {
            target: String::from_utf8_lossy(&bytes(self.target.as_bytes())).into_owned(),
            headers: headers.map(|(name, value)| (name.clone(), bytes(value))).collect(),
            body: self.body.as_deref().map(&mut bytes),
            ..self.clone()
        }
    }
}

/// Fills the placeholders of a template. Braces that are unclosed or contain no name are literal
/// text.
fn expand_template(text: &[u8], fill: &mut impl FnMut(&str) -> Option<String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = find_bytes(rest, b"{{") {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        match parse_placeholder(rest) {
            Some((name, length)) => {
                let value = fill(name).unwrap_or_else(|| format!("{{{{{name}}}}}"));
                out.extend_from_slice(value.as_bytes());
                rest = &rest[length..];
            }
            None => {
                out.push(b'{');
                rest = &rest[1..];
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// Parses the placeholder at the start of `text`; returns its name and total length.
fn parse_placeholder(text: &[u8]) -> Option<(&str, usize)> {
    let end = find_bytes(text, b"}}")?;
    let name = std::str::from_utf8(&text[2..end]).ok()?.trim();
    let is_name = !name.is_empty()
        && name.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
    is_name.then_some((name, end + 2))
}

fn find_bytes(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_kind(name: &str, weight: u32) -> RequestKind {
        RequestKind { name: name.to_owned(), weight, ..RequestKind::get("h", "/") }
    }

    #[test]
    fn kinds_are_interleaved_in_their_proportions() {
        let kinds = vec![request_kind("a", 4), request_kind("b", 2), request_kind("c", 2)];
        let kinds = RequestKinds::new(kinds, DataTable::default()).unwrap();
        let order: Vec<u16> = (0..8).map(|index| kinds.kind_at(index)).collect();
        assert_eq!(order, [0, 1, 2, 0, 0, 1, 2, 0]);
    }

    #[test]
    fn kinds_with_zero_weight_are_never_sent_and_some_weight_is_required() {
        let kinds = RequestKinds::new(
            vec![request_kind("a", 0), request_kind("b", 3)],
            DataTable::default(),
        )
        .unwrap();
        assert_eq!(kinds.kind_at(7), 1);
        let none = RequestKinds::new(vec![request_kind("a", 0)], DataTable::default());
        assert_eq!(none, Err(KindsError::None));
        let uneven = RequestKinds::new(
            vec![request_kind("a", 1), request_kind("b", 1_000_003)],
            DataTable::default(),
        );
        assert_eq!(uneven, Err(KindsError::Weights(1_000_004)));
    }

    #[test]
    fn placeholders_are_filled_from_table_rows() {
        let kind = RequestKind {
            target: "/users/{{ id }}?q={{name}}&x={{".to_owned(),
            headers: vec![("X-Id".to_owned(), b"{{id}}".to_vec())],
            body: Some(br#"{"a":{"name":"{{name}}"}}"#.to_vec()),
            ..request_kind("users", 1)
        };
        let rows = DataTable {
            names: vec!["id".into(), "name".into()],
            values: vec![vec!["1".into(), "anna".into()], vec!["2".into(), "bo".into()]],
        };
        let kinds = RequestKinds::new(vec![kind.clone()], rows.clone()).unwrap();
        assert!(kinds.is_variable(0));
        let second = kinds.fill_from_row(0, 3);
        assert_eq!(second.target, "/users/2?q=bo&x={{");
        assert_eq!(second.headers[0].1, b"2");
        assert_eq!(second.body.unwrap(), br#"{"a":{"name":"bo"}}"#);
        let without_table =
            RequestKinds::new(vec![request_kind("plain {{id}}", 1)], DataTable::default()).unwrap();
        assert!(!without_table.is_variable(0));

        let unknown = RequestKind { target: "/{{what}}".to_owned(), ..request_kind("unknown", 1) };
        let error = RequestKinds::new(vec![unknown], rows.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "'unknown' has the placeholder '{{what}}', but the table has no such column"
        );
        let evil = DataTable {
            values: vec![
                vec!["1".into(), "a".into()],
                vec!["1 HTTP/1.1\r\nX: y".into(), "b".into()],
            ],
            ..rows
        };
        let error = RequestKinds::new(vec![kind], evil).unwrap_err();
        assert!(matches!(error, KindsError::Request { .. }), "{error}");
    }
}
