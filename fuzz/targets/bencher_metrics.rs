#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    speedwell_fuzz::check("Bencher Metric Format JSON", bytes);
});
