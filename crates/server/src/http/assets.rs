//! Serves static files that are compiled into the program. Their names contain a digest of their
//! content.
//!
//! A name always stands for the same content, so browsers may cache a file forever. Request paths
//! are only looked up in the table, and never reach the file system.

use crate::http::compression::accepts_gzip;
use axum::Router;
use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

/// Table of static files.
///
/// ```
/// use speedwell_server::http::assets::AssetTable;
///
/// let assets = AssetTable::new("/static/", [("style.css", &b"body { margin: 0 }"[..])]);
/// assert!(assets.asset_path("style.css").unwrap().starts_with("/static/style."));
/// let router: axum::Router = assets.router();
/// ```
#[derive(Debug, Clone, Default)]
pub struct AssetTable {
    /// Maps file names to request paths.
    paths: HashMap<&'static str, String>,
    /// Maps request paths to files.
    files: Arc<HashMap<String, AssetFile>>,
    folder: String,
}

#[derive(Debug)]
struct AssetFile {
    content_type: &'static str,
    bytes: Bytes,
    gzipped: Option<Bytes>,
}

impl AssetTable {
    /// Creates a table from file names and contents. The files are served below `folder`, such as
    /// `/static/`.
    pub fn new(
        folder: &str,
        files: impl IntoIterator<Item = (&'static str, &'static [u8])>,
    ) -> AssetTable {
        let folder = format!("/{}/", folder.trim_matches('/'));
        let (mut paths, mut table) = (HashMap::new(), HashMap::new());
        for (name, bytes) in files {
            let path = format!("{folder}{}", hashed_name(name, bytes));
            let file = AssetFile {
                content_type: content_type(name),
                bytes: Bytes::from_static(bytes),
                gzipped: compress_bytes(bytes),
            };
            paths.insert(name, path.clone());
            table.insert(path, file);
        }
        AssetTable { paths, files: Arc::new(table), folder }
    }

    /// Returns the path under which a file is served, for links in pages.
    pub fn asset_path(&self, name: &str) -> Option<&str> {
        self.paths.get(name).map(String::as_str)
    }

    /// Returns a router that serves the files below the folder.
    pub fn router(&self) -> Router {
        let assets = self.clone();
        let handler = get(move |uri: Uri, headers: HeaderMap| async move {
            assets.serve_file(&uri, &headers)
        });
        Router::new().route(&format!("{}{{*path}}", self.folder), handler)
    }

    fn serve_file(&self, uri: &Uri, request_headers: &HeaderMap) -> Response {
        let Some(file) = self.files.get(uri.path()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let (bytes, is_gzipped) = match &file.gzipped {
            Some(gzipped) if accepts_gzip(request_headers) => (gzipped, true),
            _ => (&file.bytes, false),
        };
        let mut response = Response::new(Body::from(bytes.clone()));
        let headers = response.headers_mut();
        let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
        set(CONTENT_TYPE, file.content_type);
        set(CACHE_CONTROL, "public, max-age=31536000, immutable");
        set(ACCEPT_RANGES, "none");
        if file.gzipped.is_some() {
            set(VARY, "accept-encoding");
        }
        if is_gzipped {
            set(CONTENT_ENCODING, "gzip");
        }
        response
    }
}

/// Turns `style.css` into `style.0123456789abcdef.css`.
fn hashed_name(name: &str, bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let hex: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    match name.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}.{hex}.{extension}"),
        None => format!("{name}.{hex}"),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("html") => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// Returns the compressed bytes, if compression saves any.
fn compress_bytes(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    let gzipped = encoder.finish().ok()?;
    (gzipped.len() < bytes.len()).then(|| gzipped.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asset_names_change_with_their_content() {
        let path = |content: &'static [u8]| {
            let assets = AssetTable::new("static", [("a.b.css", content)]);
            assets.asset_path("a.b.css").unwrap().to_owned()
        };
        assert_ne!(path(b"one"), path(b"two"));
        assert_eq!(path(b"one"), path(b"one"));
        assert_eq!(path(b""), "/static/a.b.e3b0c44298fc1c14.css");
    }

    #[test]
    fn assets_that_gzip_does_not_shrink_are_sent_uncompressed() {
        let assets = AssetTable::new("/static", [("a.css", &b"x"[..]), ("b.css", &[b'x'; 2000])]);
        let gzip =
            HeaderMap::from_iter([("accept-encoding".parse().unwrap(), "gzip".parse().unwrap())]);
        let is_gzipped = |name| {
            let uri = assets.asset_path(name).unwrap().parse().unwrap();
            assets.serve_file(&uri, &gzip).headers().contains_key(CONTENT_ENCODING)
        };
        assert!(!is_gzipped("a.css"));
        assert!(is_gzipped("b.css"));
    }
}
