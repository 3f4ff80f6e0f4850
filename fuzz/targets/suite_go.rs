#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    speedwell_fuzz::check_suite(speedwell_formats::go_bench::read_reported(bytes));
});
