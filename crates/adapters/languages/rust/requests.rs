//! Controls callgrind while it counts instructions (`--metric instructions`): valgrind client requests, which are
//! no-ops outside valgrind.

use std::sync::OnceLock;

const ON_VALGRIND: usize = 0x1001;
const DUMP_COUNTS: usize = 0x4354_0000;
const TOGGLE_COUNTING: usize = 0x4354_0002;

#[allow(unused_mut, unused_variables)]
fn request(what: usize) -> usize {
    let words = [what, 0, 0, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: outside valgrind the instructions change nothing: four rotations add up to a full turn, and a register is
    // exchanged with itself. Valgrind reads the words, which outlive the instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inout("rdx") answer, in("rax") words.as_ptr(), options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61", "orr x10, x10, x10",
            inout("x3") answer, in("x4") words.as_ptr(), options(nostack),
        );
    }
    answer
}

/// Whether the program runs under valgrind.
pub fn is_counted() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| request(ON_VALGRIND) != 0)
}

/// Not inlined, so that the code between two calls is always the same.
#[inline(never)]
fn toggle_counting() {
    request(TOGGLE_COUNTING);
}

/// Counts `work`, if instructions are counted: in two sections, of which the first is empty.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    if !is_counted() {
        return work();
    }
    toggle_counting();
    toggle_counting();
    request(DUMP_COUNTS);
    toggle_counting();
    let done = work();
    toggle_counting();
    request(DUMP_COUNTS);
    done
}
