#![no_main]

use speedwell_formats::foreign::suites::criterion;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check_suite(criterion::read(bytes)));
