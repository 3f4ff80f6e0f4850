use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    let amount = tiny::amount();
    let mut group = criterion.benchmark_group("fold");
    for times in [1, 4] {
        group.bench_with_input(BenchmarkId::new("times", times), &times, |bencher, times| {
            bencher.iter(|| tiny::work(amount * times))
        });
    }
    group.finish();
    criterion.bench_function("panics", |bencher| bencher.iter(|| panic!("no luck")));
}

criterion_group! {
    name = all;
    // Its analysis is not under test.
    config = Criterion::default().nresamples(1001);
    targets = benches
}
criterion_main!(all);
