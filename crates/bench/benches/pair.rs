//! An uncontended lock and its release: on memory, and on the embedded engine beside SQLite itself.

use criterion::{Criterion, criterion_group, criterion_main};
use lockhouse_bench::{RawSqlite, pair, sqlite};
use tokio::runtime::Builder;

fn pairs(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = criterion.benchmark_group("pair");

    let memory = runtime.block_on(lockhouse::connect("memory:")).expect("memory");
    group.bench_function("memory", |bench| {
        bench.to_async(&runtime).iter(|| async { pair(&memory).await.expect("a pair") })
    });

    let raw = RawSqlite::create(&folder.path().join("raw.db")).expect("SQLite");
    group.bench_function("raw sqlite", |bench| bench.iter(|| raw.pair().expect("a pair")));

    let locks = runtime.block_on(sqlite(folder.path())).expect("sqlite");
    group.bench_function("sqlite", |bench| {
        bench.to_async(&runtime).iter(|| async { pair(&locks).await.expect("a pair") })
    });
    group.finish();
}

criterion_group!(benches, pairs);
criterion_main!(benches);
