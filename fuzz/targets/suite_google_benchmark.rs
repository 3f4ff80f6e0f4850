#![no_main]

use speedwell_formats::foreign::suites::google_benchmark;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    speedwell_fuzz::check_suite(google_benchmark::read(bytes));
});
