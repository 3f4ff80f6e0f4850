//! Runs the `speedwell` command. The process exits only here.

fn main() {
    std::process::exit(speedwell::main(std::env::args_os()).code());
}
