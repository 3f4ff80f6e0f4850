//! References to sessions: in addresses, in comparisons, and parsed by themselves.

#![no_main]

use speedwell_fuzz::served::{escape_query, fuzz_server, status_of};
use speedwell_model::SessionReference;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(reference) = text.parse::<SessionReference>() {
        let formatted = reference.to_string();
        let parsed: SessionReference = formatted.parse().expect("a reference");
        assert_eq!(parsed, reference, "{formatted}");
    }
    let server = fuzz_server();
    let word = escape_query(bytes).replace('&', "%26").replace('=', "%3D");
    for path in
        [format!("@{word}"), format!("compare?base=@{word}&with=@1"), format!("revisions/{word}")]
    {
        let request = format!(
            "GET /{}/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            server.project, server.address
        );
        status_of(request.as_bytes());
    }
});
