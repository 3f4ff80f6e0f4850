#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check(
    "Node.js CSV (run.js, compare.js or scatter.js)",
    bytes
));
