#![no_main]

use speedwell_formats::pyperf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| speedwell_fuzz::check_suite(pyperf::read_reported(
    bytes
)));
