//! How the program is linked that tests start thousands of times.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|own| own == value);
    // Where it lies is settled before it is started, not by 250,000 relocations at each start: half of the pages that it
    // touches. What is released lies anywhere, as a program does that strangers may send something.
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
