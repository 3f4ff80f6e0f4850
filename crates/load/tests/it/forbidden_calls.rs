//! System calls that are unknown or forbidden: a load works around them, or fails with their name.

use super::server::{Server, good, rows};
use speedwell_load::generator;
use speedwell_load::load::LoadConfig;
use speedwell_load::pace::{ArrivalSpacing, PacingModel, RateSchedule, RequestRate, ScheduleStage};
use speedwell_model::load::measurement::LoadMeasurement;
use std::sync::atomic::AtomicBool;

/// Makes a system call fail in the calling thread and threads it starts. Returns false if not
/// permitted.
fn forbid(call: libc::c_long, errno: i32) -> bool {
    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    let filter = |code: u32, yes: u8, no: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    };
    // Loads the system call number, and returns the error if it matches.
    let mut program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the calls, which copy it; they affect only the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}

/// Runs a load in a thread in which waiting for sockets fails with `errno`.
fn without_exact_waits(load: &LoadConfig, errno: i32) -> Option<Result<LoadMeasurement, String>> {
    let forbidden = || {
        forbid(libc::SYS_epoll_pwait2, errno).then(|| {
            let measured = generator::run(load, &AtomicBool::new(false), &mut |_| {});
            measured.map_err(|error| error.to_string())
        })
    };
    let result = std::thread::scope(|scope| scope.spawn(forbidden).join().unwrap());
    if result.is_none() {
        eprintln!("skipped: this machine does not allow a filter of system calls");
    }
    result
}

fn at_rate(server: &Server) -> LoadConfig {
    let stage = ScheduleStage::constant(RequestRate::per_second(500.0).unwrap());
    LoadConfig {
        pace: PacingModel::Open(RateSchedule::new(vec![stage], ArrivalSpacing::Even).unwrap()),
        max_connections: 50,
        ..server.load(2, 100)
    }
}

#[test]
fn loads_run_without_spinning_if_precise_waits_are_unavailable() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let server = good();
        for load in [server.load(2, 100), at_rate(&server)] {
            let Some(measured) = without_exact_waits(&load, errno) else {
                return;
            };
            let measured = measured.unwrap();
            assert_eq!(rows(&measured), [("ok", 100)], "{errno}");
            let thread = measured.threads[0];
            let looks = thread.elapsed_ns / 20_000_000 + thread.elapsed_ns / 100_000_000;
            assert!(thread.loops < 10 * 100 + 2 * looks + 100, "{thread:?}");
        }
    }
}

#[test]
fn an_unexpected_wait_error_ends_the_load_and_is_reported() {
    let server = good();
    let Some(ended) = without_exact_waits(&server.load(2, 100), libc::EIO) else {
        return;
    };
    let error = ended.unwrap_err();
    assert!(error.starts_with("cannot wait for sockets: "), "{error}");
    assert!(error.contains("os error 5"), "{error}");
}
