fn main() {
    divan::main();
}

#[divan::bench(args = [1, 4])]
fn fold(bencher: divan::Bencher<'_, '_>, times: u64) {
    let amount = tiny::amount() * times;
    bencher.bench(|| tiny::work(amount));
}

#[divan::bench]
fn panics() {
    panic!("no luck")
}
