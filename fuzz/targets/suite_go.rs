#![no_main]

use speedwell_formats::foreign::suites::go_bench;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check_suite(go_bench::read(bytes)));
