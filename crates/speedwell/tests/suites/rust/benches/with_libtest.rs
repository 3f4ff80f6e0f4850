#![feature(test)]
extern crate test;

#[bench]
fn fold(bencher: &mut test::Bencher) {
    let amount = tiny::amount();
    bencher.iter(|| tiny::work(amount));
}

#[bench]
fn panics(_: &mut test::Bencher) {
    panic!("no luck")
}
