#[inline(never)]
fn step(n: u64) -> u64 {
    if n % 2 == 0 { n / 2 } else { 3 * n + 1 }
}
#[inline(never)]
fn length(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = step(n);
        steps += 1;
    }
    steps
}
(1..150u64).map(|n| length(std::hint::black_box(n))).sum::<u64>()
