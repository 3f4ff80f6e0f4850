//! Output of a server after its settings, read as a whole, byte by byte and in pieces. The first
//! byte selects whether header blocks may use a table and how to split the rest.

#![no_main]

#[path = "../../crates/load/tests/it/http2/noise.rs"]
mod noise;

/// The server's settings and its acknowledgement of ours.
const GREETING: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, stream)) = bytes.split_first() else {
        return;
    };
    let table_size = if first % 2 == 0 { 0 } else { 4096 };
    let stream = [GREETING, stream].concat();
    noise::check(table_size, &stream, usize::from(first / 2) + 1);
});
