//! The rule: how long it takes to walk a line.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lockhouse::line::{Room, granted};

fn rule(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rule");
    group.bench_function("admit one", |bench| bench.iter(|| Room::beside(black_box(1), black_box(0)).admit(1)));
    let readers = vec![1; 1_000];
    group.bench_function("walk 1000 readers", |bench| {
        bench.iter(|| granted(black_box(u32::MAX), readers.iter().copied()));
    });
    group.finish();
}

criterion_group!(benches, rule);
criterion_main!(benches);
