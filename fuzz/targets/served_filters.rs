//! Query strings of pages: `PAGE?NAME=VALUE&...`. The first byte selects the page.

#![no_main]

use speedwell_fuzz::served::{escape_query, fuzz_server, status_of};

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
    let server = fuzz_server();
    let request = format!(
        "GET /{}/{}?{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.project,
        PAGES[usize::from(*page) % PAGES.len()],
        escape_query(query),
        server.address
    );
    status_of(request.as_bytes());
});
