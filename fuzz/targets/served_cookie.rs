//! A cookie and a token as strangers send them: neither lets anybody in.
#![no_main]

use speedwell_fuzz::served::{served, status_if_any};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let served = served();
    for field in ["Cookie", "Authorization"] {
        let head = format!(
            "GET /settings HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{field}: ",
            served.address
        );
        let status = status_if_any(&[head.as_bytes(), bytes, b"\r\n\r\n"].concat());
        // Bytes may hold the end of the head, and be another request.
        let is_one_field = !bytes.iter().any(|byte| [b'\r', b'\n'].contains(byte));
        assert!(status != Some(200) || !is_one_field, "{field}");
    }
});
