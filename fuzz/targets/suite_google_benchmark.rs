#![no_main]

use speedwell_formats::foreign::google_benchmark;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    speedwell_fuzz::check_suite(google_benchmark::read_reported(bytes));
});
