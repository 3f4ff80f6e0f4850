#![no_main]

use speedwell_formats::foreign::suites::rust;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check_suite(rust::read_divan(bytes)));
