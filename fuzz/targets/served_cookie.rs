//! Cookies and tokens from strangers. None may grant access.

#![no_main]

use speedwell_fuzz::served::{fuzz_server, status_if_any};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let address = fuzz_server().address;
    for field in ["Cookie", "Authorization"] {
        let head =
            format!("GET /settings HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{field}: ");
        let status = status_if_any(&[head.as_bytes(), bytes, b"\r\n\r\n"].concat());
        // Bytes with a line end can end the head and begin another request.
        let is_one_field = !bytes.iter().any(|byte| [b'\r', b'\n'].contains(byte));
        assert!(status != Some(200) || !is_one_field, "{field}");
    }
});
