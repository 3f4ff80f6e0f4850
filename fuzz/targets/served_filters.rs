//! What stands behind the `?` of pages: `PAGE?NAME=VALUE&...`, of which the first byte chooses the page.
#![no_main]

use speedwell_fuzz::served::{escaped, served, status_of};

const PAGES: [&str; 8] = [
    "sessions",
    "sessions.json",
    "compare",
    "compare.csv",
    "benchmarks",
    "search",
    "machines",
    "branches/main",
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((page, query)) = bytes.split_first() else {
        return;
    };
    let served = served();
    let request = format!(
        "GET /{}/{}?{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        served.project,
        PAGES[usize::from(*page) % PAGES.len()],
        escaped(query),
        served.address
    );
    status_of(request.as_bytes());
});
