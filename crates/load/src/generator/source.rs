//! The bytes of every request, written down before the load begins.
//!
//! A table of texts has an end, so each of its rows is written once for each kind; sending is then
//! the same for all requests, and no memory is asked for while it is measured.

use crate::http1::Request;
use crate::load::{Http, Kinds, KindsError};

/// Requests by kind and row.
pub(super) struct Source<'a> {
    kinds: &'a Kinds,
    one: Vec<Vec<Request>>,
}

impl<'a> Source<'a> {
    /// Writes down all requests of a load.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub fn new(kinds: &'a Kinds, http: Http, _scheme: &str) -> Result<Source<'a>, KindsError> {
        let mut source = Source {
            kinds,
            one: Vec::new(),
        };
        for (at, kind) in kinds.all().iter().enumerate() {
            let refused = |why: String| KindsError::Http2 {
                name: kind.name.clone(),
                why,
            };
            let rows = match kinds.varies(at as u16) {
                true => kinds.rows().values.len(),
                false => 1,
            };
            let filled = (0..rows as u64).map(|row| kinds.filled(at as u16, row));
            match http {
                Http::One => {
                    let written = filled.map(|kind| kind.with_parts(Request::new));
                    let written =
                        written
                            .collect::<Result<_, _>>()
                            .map_err(|why| KindsError::Request {
                                name: kind.name.clone(),
                                why,
                            })?;
                    source.one.push(written);
                }
                Http::Two { .. } => return Err(refused(String::new())),
            }
        }
        Ok(source)
    }

    /// The kind of request number `index`.
    pub fn kind_of(&self, index: u64) -> u16 {
        self.kinds.kind_of(index)
    }

    /// Request number `index` as HTTP/1 writes it.
    pub fn one(&self, kind: u16, index: u64) -> &Request {
        of_row(&self.one[usize::from(kind)], index)
    }
}

fn of_row<T>(rows: &[T], index: u64) -> &T {
    match rows {
        [only] => only,
        rows => &rows[(index % rows.len() as u64) as usize],
    }
}
