//! Lines of an uploaded session. The server must store them or report what is wrong.

#![no_main]

use speedwell_fuzz::served::{fuzz_server, status_of};
use speedwell_store::SessionDigest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let server = fuzz_server();
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header: serde_json::Value = serde_json::from_slice(first).unwrap_or_default();
    let id = header["id"].as_str().unwrap_or("0197");
    let is_id =
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let head = format!(
        "PUT /api/v1/{}/sessions/{}?sha256={} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        server.project,
        if is_id { id } else { "0197" },
        SessionDigest::hash_lines(bytes),
        server.address,
        server.token,
        bytes.len()
    );
    status_of(&[head.as_bytes(), bytes].concat());
});
