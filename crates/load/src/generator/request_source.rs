//! Encodes all requests before the load starts.
//!
//! A data table is finite, so each row is encoded once for each kind of request that has
//! placeholders. During the measurement, sending then takes the same steps for all requests and,
//! with HTTP/1 and HTTP/2, does not allocate.

#[cfg(feature = "http3")]
use super::quic;
use crate::http1::Http1Request;
use crate::http2::{self, UrlScheme};
use crate::load::{HttpVersion, KindsError, RequestKind, RequestKinds};

/// Encoded requests, by kind and by row of the data table.
pub(super) struct RequestSource<'a> {
    kinds: &'a RequestKinds,
    http1: Vec<Vec<Http1Request>>,
    http2: Vec<Vec<http2::Http2Request>>,
    #[cfg(feature = "http3")]
    http3: Vec<Vec<quic::PreparedRequest>>,
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
        for (index, kind) in kinds.kinds().iter().enumerate() {
            let rows = if kinds.is_variable(index as u16) { kinds.rows().values.len() } else { 1 };
            let filled = (0..rows as u64).map(|row| kinds.fill_from_row(index as u16, row));
            let request_error = |error| KindsError::Request { name: kind.name.clone(), why: error };
            match http {
                HttpVersion::One => {
                    let encoded = filled.map(|kind| kind.with_parts(Http1Request::new));
                    let encoded: Result<_, _> = encoded.collect();
                    source.http1.push(encoded.map_err(request_error)?);
                }
                HttpVersion::Two { .. } => {
                    let encode = |kind: RequestKind| {
                        kind.with_parts(|parts| http2::Http2Request::new(parts, scheme))
                    };
                    let encoded: Result<_, _> = filled.map(encode).collect();
                    source.http2.push(encoded.map_err(request_error)?);
                }
                #[cfg(feature = "http3")]
                HttpVersion::Three => {
                    let encoded = filled.map(|kind| kind.with_parts(quic::PreparedRequest::new));
                    let encoded: Result<_, _> = encoded.collect();
                    source.http3.push(encoded.map_err(request_error)?);
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
        self.select_row(&self.http1[usize::from(kind)], index)
    }

    /// Returns request number `index` encoded for HTTP/2.
    pub fn http2_request(&self, kind: u16, index: u64) -> &http2::Http2Request {
        self.select_row(&self.http2[usize::from(kind)], index)
    }

    /// Returns request number `index` prepared for HTTP/3.
    #[cfg(feature = "http3")]
    pub fn http3_request(&self, kind: u16, index: u64) -> &quic::PreparedRequest {
        self.select_row(&self.http3[usize::from(kind)], index)
    }

    fn select_row<'b, T>(&self, rows: &'b [T], index: u64) -> &'b T {
        match rows {
            [only] => only,
            rows => &rows[(self.kinds.row_at(index) % rows.len() as u64) as usize],
        }
    }
}
