#![no_main]

use speedwell_analysis::profile::explain;
use speedwell_formats::foreign::profile::{FrameNames, read};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(profile)) = read(bytes, &FrameNames::default()) {
        let found = explain(&profile, &profile);
        assert_eq!(found.tree.baseline, profile.total(), "weight is kept");
    }
});
