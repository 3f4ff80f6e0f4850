#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check("wrk or h2load output", bytes));
