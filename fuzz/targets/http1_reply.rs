//! The bytes of a connection, read as a whole, byte by byte and in pieces. The first byte selects
//! the requests and how to split the rest.

#![no_main]

#[path = "../../crates/load/tests/it/pieces.rs"]
mod pieces;

use speedwell_load::http1::MethodKind;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, stream)) = bytes.split_first() else {
        return;
    };
    let methods = match first {
        b'h' => [MethodKind::Head; 3],
        b'b' => [MethodKind::Body; 3],
        other if other % 2 == 0 => [MethodKind::Head, MethodKind::Body, MethodKind::Connect],
        _ => [MethodKind::Body, MethodKind::Connect, MethodKind::Head],
    };
    let lengths = [usize::from(first % 61) + 1, usize::from(first % 7) + 1];
    pieces::check(&methods, stream, &lengths);
});
