//! The static table (RFC 7541, appendix A).

/// How many entries it has; the dynamic table is numbered from the next index on.
pub(crate) const ENTRIES: u32 = 61;

/// The field at an index from 1 to [`ENTRIES`].
pub(crate) fn entry(index: u32) -> Option<(&'static str, &'static str)> {
    let place = usize::try_from(index).ok()?.checked_sub(1)?;
    TABLE.get(place).copied()
}

/// The index of a field, and whether its value agrees, too.
pub(super) fn find(name: &[u8], value: &[u8]) -> Option<(usize, bool)> {
    let is_named = |entry: &&(usize, &(&str, &str))| entry.1.0.as_bytes() == name;
    let mut named = TABLE.iter().enumerate().filter(|entry| is_named(&entry));
    let first = named.clone().next()?;
    let exact = named.find(|(_, entry)| entry.1.as_bytes() == value);
    Some(match exact {
        Some((place, _)) => (place + 1, true),
        None => (first.0 + 1, false),
    })
}

static TABLE: [(&str, &str); ENTRIES as usize] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
