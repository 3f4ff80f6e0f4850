//! The Host field. The server may answer only to its own names.

#![no_main]

use speedwell_fuzz::served::{fuzz_server, status_if_any};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.iter().any(|byte| [b'\r', b'\n'].contains(byte)) {
        return;
    }
    let port = fuzz_server().address.port();
    let head = b"GET / HTTP/1.1\r\nConnection: close\r\nHost: ";
    if status_if_any(&[&head[..], bytes, b"\r\n\r\n"].concat()) == Some(200) {
        let name = std::str::from_utf8(bytes).expect("a name").trim().to_lowercase();
        let host = name.strip_suffix(&format!(":{port}")).expect("the port");
        let is_local = host == "localhost"
            || host == "[::1]"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        assert!(is_local, "{name}");
    }
});
