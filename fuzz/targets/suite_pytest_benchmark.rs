#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    speedwell_fuzz::check_suite(speedwell_results::foreign::suites::pytest_benchmark::read(bytes));
});
