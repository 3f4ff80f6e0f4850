#![no_main]

use speedwell_formats::foreign::suites::libtest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check_suite(libtest::read(bytes)));
