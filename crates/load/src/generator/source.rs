//! The encoded bytes of all requests, prepared before the load starts.
//!
//! A data table is finite, so each row is encoded once per kind. Sending is then the same for all
//! requests and does not allocate during the measurement.

#[cfg(feature = "http3")]
use super::quic;
use crate::http1::Request;
use crate::http2::{self, Scheme};
use crate::load::{Http, Kind, Kinds, KindsError};

/// Requests by kind and row.
pub(super) struct Source<'a> {
    kinds: &'a Kinds,
    one: Vec<Vec<Request>>,
    two: Vec<Vec<http2::Request>>,
    #[cfg(feature = "http3")]
    three: Vec<Vec<quic::Request>>,
}

impl<'a> Source<'a> {
    /// Encodes all requests of a load.
    ///
    /// # Errors
    /// Fails if one of them cannot be encoded.
    pub fn new(kinds: &'a Kinds, http: Http, scheme: Scheme) -> Result<Source<'a>, KindsError> {
        let mut source = Source {
            kinds,
            one: Vec::new(),
            two: Vec::new(),
            #[cfg(feature = "http3")]
            three: Vec::new(),
        };
        for (at, kind) in kinds.entries().iter().enumerate() {
            let rows = if kinds.varies(at as u16) {
                kinds.rows().values.len()
            } else {
                1
            };
            let filled = (0..rows as u64).map(|row| kinds.filled(at as u16, row));
            let refused = |why| KindsError::Request {
                name: kind.name.clone(),
                why,
            };
            match http {
                Http::One => {
                    let written = filled.map(|kind| kind.with_parts(Request::new));
                    let written: Result<_, _> = written.collect();
                    source.one.push(written.map_err(refused)?);
                }
                Http::Two { .. } => {
                    let write =
                        |kind: Kind| kind.with_parts(|parts| http2::Request::new(parts, scheme));
                    let written: Result<_, _> = filled.map(write).collect();
                    source.two.push(written.map_err(refused)?);
                }
                #[cfg(feature = "http3")]
                Http::Three => {
                    let written = filled.map(|kind| kind.with_parts(quic::Request::new));
                    let written: Result<_, _> = written.collect();
                    source.three.push(written.map_err(refused)?);
                }
                #[cfg(not(feature = "http3"))]
                Http::Three => {}
            }
        }
        Ok(source)
    }

    /// Returns the kind of request number `index`.
    pub fn kind_of(&self, index: u64) -> u16 {
        self.kinds.kind_of(index)
    }

    /// Returns request number `index` encoded for HTTP/1.
    pub fn http1_request(&self, kind: u16, index: u64) -> &Request {
        self.of_row(&self.one[usize::from(kind)], index)
    }

    /// Returns request number `index` encoded for HTTP/2.
    pub fn http2_request(&self, kind: u16, index: u64) -> &http2::Request {
        self.of_row(&self.two[usize::from(kind)], index)
    }

    /// Returns request number `index` prepared for HTTP/3.
    #[cfg(feature = "http3")]
    pub fn http3_request(&self, kind: u16, index: u64) -> &quic::Request {
        self.of_row(&self.three[usize::from(kind)], index)
    }

    fn of_row<'b, T>(&self, rows: &'b [T], index: u64) -> &'b T {
        match rows {
            [only] => only,
            rows => &rows[(self.kinds.row_of(index) % rows.len() as u64) as usize],
        }
    }
}
