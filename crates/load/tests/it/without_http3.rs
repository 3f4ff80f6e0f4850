//! Builds without the feature `http3`.

use super::server::load_to;
use speedwell_load::generator;
use speedwell_load::load::{HttpVersion, LoadConfig};
use std::sync::atomic::AtomicBool;

#[test]
fn a_build_without_http3_rejects_http3_loads() {
    let load =
        LoadConfig { http: HttpVersion::Three, ..load_to("127.0.0.1:9".parse().unwrap(), 1, 1) };
    let never = AtomicBool::new(false);
    let error = generator::run(&load, &never, &mut |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this build does not support HTTP/3, because it was built without the feature 'http3'"
    );
    let error = generator::send_probe(&load, &never).unwrap_err();
    assert!(error.to_string().starts_with("this build does not support HTTP/3"));
}
