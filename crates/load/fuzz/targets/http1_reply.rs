//! A connection's bytes, read whole, byte by byte and in pieces. The first byte says what was asked
//! and how the rest is cut.

#![no_main]

#[path = "../../tests/it/pieces.rs"]
mod pieces;

use speedwell_load::http1::Asked;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, stream)) = bytes.split_first() else {
        return;
    };
    let asked = match first {
        b'h' => [Asked::Head; 3],
        b'b' => [Asked::Body; 3],
        other if other % 2 == 0 => [Asked::Head, Asked::Body, Asked::Connect],
        _ => [Asked::Body, Asked::Connect, Asked::Head],
    };
    let lengths = [usize::from(first % 61) + 1, usize::from(first % 7) + 1];
    pieces::check(&asked, stream, &lengths);
});
