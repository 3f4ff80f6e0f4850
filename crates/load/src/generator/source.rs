//! The encoded bytes of all requests, prepared before the load starts.
//!
//! A data table is finite, so each row is encoded once per kind. Sending is then the same for all
//! requests and does not allocate during the measurement.

#[cfg(feature = "http3")]
use super::quic;
use crate::http1::Http1Request;
use crate::http2::{self, UrlScheme};
use crate::load::{HttpVersion, KindsError, RequestKind, RequestKinds};

/// Requests by kind and row.
pub(super) struct RequestSource<'a> {
    kinds: &'a RequestKinds,
    one: Vec<Vec<Http1Request>>,
    two: Vec<Vec<http2::Http2Request>>,
    #[cfg(feature = "http3")]
    three: Vec<Vec<quic::PreparedRequest>>,
}

impl<'a> RequestSource<'a> {
    /// Encodes all requests of a load.
    ///
    /// # Errors
    /// Fails if one of them cannot be encoded.
    pub fn new(
        kinds: &'a RequestKinds,
        http: HttpVersion,
        scheme: UrlScheme,
    ) -> Result<RequestSource<'a>, KindsError> {
        let mut source = RequestSource {
            kinds,
            one: Vec::new(),
            two: Vec::new(),
            #[cfg(feature = "http3")]
            three: Vec::new(),
        };
        for (at, kind) in kinds.kinds().iter().enumerate() {
            let rows = if kinds.is_variable(at as u16) {
                kinds.rows().values.len()
            } else {
                1
            };
            let filled = (0..rows as u64).map(|row| kinds.fill_from_row(at as u16, row));
            let refused = |why| KindsError::Request {
                name: kind.name.clone(),
                why,
            };
            match http {
                HttpVersion::One => {
                    let written = filled.map(|kind| kind.with_parts(Http1Request::new));
                    let written: Result<_, _> = written.collect();
                    source.one.push(written.map_err(refused)?);
                }
                HttpVersion::Two { .. } => {
                    let write = |kind: RequestKind| {
                        kind.with_parts(|parts| http2::Http2Request::new(parts, scheme))
                    };
                    let written: Result<_, _> = filled.map(write).collect();
                    source.two.push(written.map_err(refused)?);
                }
                #[cfg(feature = "http3")]
                HttpVersion::Three => {
                    let written = filled.map(|kind| kind.with_parts(quic::PreparedRequest::new));
                    let written: Result<_, _> = written.collect();
                    source.three.push(written.map_err(refused)?);
                }
                #[cfg(not(feature = "http3"))]
                HttpVersion::Three => {}
            }
        }
        Ok(source)
    }

    /// Returns the kind of request number `index`.
    pub fn kind_at(&self, index: u64) -> u16 {
        self.kinds.kind_at(index)
    }

    /// Returns request number `index` encoded for HTTP/1.
    pub fn http1_request(&self, kind: u16, index: u64) -> &Http1Request {
        self.select_row(&self.one[usize::from(kind)], index)
    }

    /// Returns request number `index` encoded for HTTP/2.
    pub fn http2_request(&self, kind: u16, index: u64) -> &http2::Http2Request {
        self.select_row(&self.two[usize::from(kind)], index)
    }

    /// Returns request number `index` prepared for HTTP/3.
    #[cfg(feature = "http3")]
    pub fn http3_request(&self, kind: u16, index: u64) -> &quic::PreparedRequest {
        self.select_row(&self.three[usize::from(kind)], index)
    }

    fn select_row<'b, T>(&self, rows: &'b [T], index: u64) -> &'b T {
        match rows {
            [only] => only,
            rows => &rows[(self.kinds.row_at(index) % rows.len() as u64) as usize],
        }
    }
}
