//! Words that mean sessions: in addresses, in comparisons, and read by themselves.
#![no_main]

use speedwell_fuzz::served::{escaped, served, status_of};
use speedwell_store::Reference;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(reference) = text.parse::<Reference>() {
        let again = reference.to_string();
        assert_eq!(
            again.parse::<Reference>().expect("it was one"),
            reference,
            "{again}"
        );
    }
    let served = served();
    let word = escaped(bytes).replace('&', "%26").replace('=', "%3D");
    for path in [
        format!("@{word}"),
        format!("compare?base=@{word}&with=@1"),
        format!("revisions/{word}"),
    ] {
        let request = format!(
            "GET /{}/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            served.project, served.address
        );
        status_of(request.as_bytes());
    }
});
