//! The `speedwell` command: only here does the process exit.

fn main() {
    std::process::exit(speedwell::main(std::env::args_os()).code());
}
