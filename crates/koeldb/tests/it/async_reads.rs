//! Futures and streams return the same as blocking calls, and may be dropped at any time.
//!
//! This holds for every order in which reads complete.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use koeldb::fs::layer::{Layered, Operation};
use koeldb::fs::read_driver::SimReads;
use koeldb::fs::{Failure, FaultFileSystem, FaultRule, MemoryFileSystem};
use koeldb::{
    BlockBasedOptions, Cache, Compression, Db, Env, ErrorKind, Options, ReadEngine, ReadOptions,
    StringAppend,
};

use crate::scratch::ScratchDir;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 600;

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_compression_type(Compression::None)
        .set_merge_operator(StringAppend::new(","));
    options
}

/// Fills five tables of level 0 with overlapping values, deletions, range deletions and operands.
fn fill(db: &Db) -> Model {
    let mut model = Model::new();
    for run in 0..5_u64 {
        for number in (run % 3..KEYS).step_by(1 + usize::try_from(run).unwrap()) {
            let value = format!("{run}.{number}").into_bytes();
            match (number + run) % 7 {
                0 => {
                    db.delete(key(number)).unwrap();
                    model.remove(&key(number));
                }
                1 => {
                    db.merge(key(number), &value).unwrap();
                    let old = model.entry(key(number)).or_default();
                    if !old.is_empty() {
                        old.push(b',');
                    }
                    old.extend(value);
                }
                _ => {
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
            }
        }
        if run == 2 {
            db.delete_range(key(100), key(120)).unwrap();
            model.retain(|known, _| *known < key(100) || *known >= key(120));
        }
        db.flush().unwrap();
    }
    model
}

/// A database on a simulated device, with completions determined by a seed and injected failures.
struct Simulated {
    db: Db,
    model: Model,
    sim: SimReads,
    faults: FaultFileSystem,
}

impl Simulated {
    fn new(seed: u64) -> Self {
        let memory = Arc::new(MemoryFileSystem::new());
        let sim = SimReads::new(seed);
        let path = "/async-reads";
        let filled = Db::open(
            options().set_env(&Env::new(memory.clone(), Arc::new(sim.clock().clone()))),
            path,
        )
        .unwrap();
        let model = fill(&filled);
        filled.close().unwrap();
        let ordered = Arc::new(Layered::with_layer(memory, sim.clone()));
        let faults = FaultFileSystem::new(ordered, seed);
        let env = Env::new(Arc::new(faults.clone()), Arc::new(sim.clock().clone()));
        let mut table = BlockBasedOptions::new();
        table
            .set_block_size(256)
            .set_block_cache(&Cache::new_lru_cache(0))
            .set_cache_index_and_filter_blocks(true);
        let mut options = options();
        options.set_env(&env).set_block_based_table_factory(&table);
        Simulated {
            db: Db::open(&options, path).unwrap(),
            model,
            sim,
            faults,
        }
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls up to `polls` times; between polls the device completes reads until the task is woken.
fn poll_with<T>(
    mut future: Pin<&mut impl Future<Output = T>>,
    sim: &SimReads,
    polls: usize,
) -> Option<T> {
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        while !flag.0.swap(false, Ordering::SeqCst) {
            assert!(sim.step(), "a task waits, and nothing is under way");
        }
    }
    None
}

fn run<T>(future: impl Future<Output = T>, sim: &SimReads) -> T {
    poll_with(pin!(future), sim, usize::MAX).unwrap()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn futures_answer_as_the_model_in_any_order_of_completions() {
    for seed in 0..6 {
        let Simulated { db, model, sim, .. } = Simulated::new(seed);
        for number in (seed..KEYS + 20).step_by(23) {
            let found = run(db.get_async(key(number)), &sim).unwrap();
            assert_eq!(found.as_deref(), model.get(&key(number)).map(Vec::as_slice));
        }
        let keys: Vec<_> = (0..KEYS + 20)
            .map(|at| key(at * (2 * seed + 7) % (KEYS + 20)))
            .collect();
        for count in [0, 1, 2, 100, keys.len()] {
            let values = run(db.multi_get_async(&keys[..count]), &sim);
            assert_eq!(values.len(), count);
            for (key, value) in keys.iter().zip(&values) {
                assert_eq!(value.unwrap(), model.get(key).map(Vec::as_slice));
            }
        }
        assert_eq!(sim.held(), 0);
    }
}

#[test]
fn a_batch_as_a_stream_answers_each_key_once_and_as_soon_as_it_is_found() {
    for seed in 0..6 {
        let Simulated {
            db,
            mut model,
            sim,
            faults,
        } = Simulated::new(seed);
        let mut keys: Vec<_> = (0..KEYS + 20)
            .map(|at| key(at * (2 * seed + 7) % (KEYS + 20)))
            .collect();
        keys[250] = b"fresh".to_vec();
        keys[251] = keys[3].clone();
        db.put("fresh", "value").unwrap();
        model.insert(b"fresh".to_vec(), b"value".to_vec());
        for count in [0, 1, 100, keys.len()] {
            let mut stream = db.multi_get_stream(&keys[..count]);
            let mut found = vec![0; count];
            let mut early = 0;
            while let Some((index, value)) = run(stream.next(), &sim) {
                assert_eq!(
                    value.unwrap().as_deref(),
                    model.get(&keys[index]).map(Vec::as_slice)
                );
                found[index] += 1;
                early += usize::from(sim.held() > 0);
            }
            assert!(found.iter().all(|&times| times == 1), "{found:?}");
            assert!(run(stream.next(), &sim).is_none(), "it stays at its end");
            assert!(count < 100 || early > count / 4, "{early} of {count}");
            assert_eq!(sim.held(), 0);
        }
        // Keys in memory do not wait for a device.
        let mut stream = db.multi_get_stream(&keys[250..252]);
        let (index, value) = poll_with(pin!(stream.next()), &sim, 1).unwrap().unwrap();
        assert_eq!((index, value.unwrap().as_deref()), (0, Some(&b"value"[..])));
        drop(stream);
        sim.run();
        // An unreadable block fails only its own keys.
        faults.add_rule(
            FaultRule::fail(Failure::Device)
                .on(&[Operation::Read])
                .chance(200_000),
        );
        let mut stream = db.multi_get_stream(&keys);
        let (mut good, mut bad) = (0, 0);
        while let Some((index, value)) = run(stream.next(), &sim) {
            match value {
                Ok(value) => {
                    assert_eq!(value.as_deref(), model.get(&keys[index]).map(Vec::as_slice));
                    good += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::IoError);
                    bad += 1;
                }
            }
        }
        assert_eq!(good + bad, keys.len());
        assert!(good > 0 && bad > 0, "{good} and {bad}");
    }
}

#[test]
fn what_is_cached_is_there_at_the_first_poll_and_asks_no_device() {
    let Simulated { db, model, sim, .. } = Simulated::new(1);
    // A key in a memtable needs no wait.
    db.put("fresh", "value").unwrap();
    let found = poll_with(pin!(db.get_async("fresh")), &sim, 1).unwrap();
    assert_eq!(found.unwrap().as_deref(), Some(&b"value"[..]));
    let values = poll_with(pin!(db.multi_get_async(&["fresh"])), &sim, 1).unwrap();
    assert_eq!(values.get(0).unwrap(), Some(&b"value"[..]));
    // Keys in tables without a cache are not ready at the first poll.
    let present = model.keys().next().unwrap();
    assert!(poll_with(pin!(db.get_async(present)), &sim, 1).is_none());
    sim.run();
    // Keys in cached tables are ready at the first poll.
    let (_dir, db, model) = on_disk_with(ReadEngine::Auto, false, &Cache::new_lru_cache(8 << 20));
    let keys: Vec<_> = model.keys().step_by(7).collect();
    let _ = block_on(db.multi_get_async(&keys));
    for &key in &keys {
        let found = poll_with(pin!(db.get_async(key)), &sim, 1)
            .unwrap()
            .unwrap();
        assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice));
    }
    let values = poll_with(pin!(db.multi_get_async(&keys)), &sim, 1).unwrap();
    assert!(values.iter().all(|value| value.unwrap().is_some()));
}

#[test]
fn a_future_may_be_dropped_or_forgotten_after_any_poll() {
    let Simulated { db, model, sim, .. } = Simulated::new(3);
    let keys: Vec<_> = (0..40).map(|at| key(at * 13)).collect();
    let mut completed = 0;
    for polls in 0..200 {
        let mut batch = Box::pin(db.multi_get_async(&keys));
        let is_ready = poll_with(batch.as_mut(), &sim, polls).is_some();
        let mut single = Box::pin(db.get_async(&keys[polls % keys.len()]));
        poll_with(single.as_mut(), &sim, polls % 5);
        if polls % 4 == 0 {
            std::mem::forget((batch, single));
        } else {
            drop((batch, single));
        }
        // Orphaned reads complete after their owners are dropped.
        sim.run();
        assert_eq!(sim.held(), 0);
        completed += usize::from(is_ready);
        if completed > 3 {
            break;
        }
    }
    assert!(completed > 3);
    let values = run(db.multi_get_async(&keys), &sim);
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(value.unwrap(), model.get(key).map(Vec::as_slice));
    }
}

#[test]
fn a_failed_read_fails_its_keys_and_shows_no_older_value() {
    for seed in 0..8 {
        let Simulated {
            db,
            model,
            sim,
            faults,
        } = Simulated::new(seed);
        // Tables are open before anything fails.
        assert!(run(db.get_async(key(3)), &sim).is_ok());
        faults.add_rule(
            FaultRule::fail(Failure::Device)
                .on(&[Operation::Read])
                .chance(200_000),
        );
        let keys: Vec<_> = (0..60).map(|at| key(at * 9)).collect();
        let mut failed = 0;
        for _ in 0..5 {
            for (key, value) in keys.iter().zip(&run(db.multi_get_async(&keys), &sim)) {
                match value {
                    Ok(value) => assert_eq!(value, model.get(key).map(Vec::as_slice)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::IoError);
                        failed += 1;
                    }
                }
            }
        }
        assert!(failed > 0);
        faults.clear_rules();
        for (key, value) in keys.iter().zip(&run(db.multi_get_async(&keys), &sim)) {
            assert_eq!(value.unwrap(), model.get(key).map(Vec::as_slice));
        }
    }
}

#[test]
fn a_future_past_its_deadline_fails_when_it_is_polled() {
    let Simulated { db, model, sim, .. } = Simulated::new(2);
    let mut read = ReadOptions::new();
    read.set_deadline(Instant::now());
    let present = model.keys().next().unwrap();
    let error = run(db.get_async_opt(present, &read), &sim).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let values = run(db.multi_get_async_opt(&[present], &read), &sim);
    assert_eq!(values.get(0).unwrap_err().kind(), ErrorKind::TimedOut);
    sim.run();
}

fn on_disk(engine: ReadEngine, direct: bool) -> (ScratchDir, Db, Model) {
    on_disk_with(engine, direct, &Cache::new_lru_cache(0))
}

fn on_disk_with(engine: ReadEngine, direct: bool, cache: &Cache) -> (ScratchDir, Db, Model) {
    let dir = ScratchDir::new();
    let filled = Db::open(&options(), dir.path()).unwrap();
    let model = fill(&filled);
    filled.close().unwrap();
    let mut table = BlockBasedOptions::new();
    table.set_block_cache(cache);
    let mut options = options();
    options
        .set_async_io_engine(engine)
        .set_use_direct_reads(direct)
        .set_block_based_table_factory(&table);
    let db = Db::open(&options, dir.path()).unwrap();
    (dir, db, model)
}

#[test]
fn every_engine_serves_tasks_of_tokio() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    for (engine, direct) in [
        (ReadEngine::Auto, false),
        (ReadEngine::Auto, true),
        (ReadEngine::Pool, true),
        (ReadEngine::Off, false),
    ] {
        let (_dir, db, model) = on_disk(engine, direct);
        let model = Arc::new(model);
        runtime.block_on(async {
            let mut tasks = Vec::new();
            for task in 0..8 {
                let (db, model) = (db.clone(), Arc::clone(&model));
                tasks.push(tokio::spawn(async move {
                    for number in (task..KEYS).step_by(37) {
                        let found = db.get_async(key(number)).await.unwrap();
                        assert_eq!(found.as_deref(), model.get(&key(number)).map(Vec::as_slice));
                    }
                    let keys: Vec<_> = (task..KEYS).step_by(5).map(key).collect();
                    let values = db.multi_get_async(&keys).await;
                    for (key, value) in keys.iter().zip(&values) {
                        assert_eq!(value.unwrap(), model.get(key).map(Vec::as_slice));
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
        db.close().unwrap();
    }
}

#[test]
fn a_stream_has_the_entries_of_its_iterator() {
    let (_dir, db, model) = on_disk(ReadEngine::Auto, false);
    let expected: Vec<_> = model.iter().collect();
    block_on(async {
        let mut stream = db.range(..).into_stream();
        let mut seen = Vec::new();
        while let Some(entry) = stream.next().await {
            let (key, value) = entry.unwrap();
            seen.push((key.to_vec(), value.to_vec()));
        }
        assert!(
            seen.iter()
                .map(|(key, value)| (key, value))
                .eq(expected.iter().copied())
        );
        assert!(stream.next().await.is_none(), "it stays at its end");
        let mut chunks = db.range(..).into_stream();
        let mut count = 0;
        loop {
            let chunk = chunks.next_chunk(50).await.unwrap();
            if chunk.is_empty() {
                break;
            }
            assert!(chunk.len() <= 50);
            for (at, (key, _)) in chunk.iter().enumerate() {
                assert_eq!(**key, **expected[count + at].0);
            }
            count += chunk.len();
        }
        assert_eq!(count, expected.len());
        assert!(chunks.next_chunk(0).await.unwrap().is_empty());
    });
}

#[test]
fn a_stream_that_is_dropped_at_any_moment_leaves_nothing_behind() {
    let (_dir, db, model) = on_disk(ReadEngine::Auto, true);
    let waker = Waker::from(Arc::new(Flag::default()));
    for entries in [0, 1, 15, 16, 17, 40, 300] {
        let mut stream = db.range(..).into_stream();
        block_on(async {
            for _ in 0..entries {
                stream.next().await.unwrap().unwrap();
            }
        });
        // A step that is given up takes nothing.
        let polled = pin!(stream.next()).poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            let next = block_on(stream.next()).unwrap().unwrap();
            assert_eq!(*next.0, **model.keys().nth(entries).unwrap());
            let _ = pin!(stream.next()).poll(&mut Context::from_waker(&waker));
        }
        drop(stream);
    }
    db.close().unwrap();
}

#[test]
fn a_stream_tells_an_error_once_and_ends() {
    let Simulated {
        db, sim, faults, ..
    } = Simulated::new(4);
    assert!(run(db.get_async(key(3)), &sim).is_ok());
    let mut stream = db.range(..).into_stream();
    let failing = AtomicUsize::new(0);
    block_on(async {
        for _ in 0..16 {
            stream.next().await.unwrap().unwrap();
        }
        faults.add_rule(FaultRule::fail(Failure::Device).on(&[Operation::Read]));
        while let Some(entry) = stream.next().await {
            if let Err(error) = entry {
                assert_eq!(error.kind(), ErrorKind::IoError);
                failing.fetch_add(1, Ordering::SeqCst);
            }
        }
        assert!(stream.next().await.is_none());
    });
    assert_eq!(failing.load(Ordering::SeqCst), 1);
}

#[test]
fn futures_and_streams_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    let (_dir, db, model) = on_disk(ReadEngine::Auto, true);
    let keys: Vec<_> = (0..100).map(key).collect();
    is_send(&db.get_async(&keys[0]));
    is_send(&db.multi_get_async(&keys));
    let mut batch = Box::pin(db.multi_get_async(&keys));
    let mut stream = db.range(..).into_stream();
    is_send(&stream.next());
    // Each step on another thread, which ends.
    let waker = Waker::from(Arc::new(Flag::default()));
    let values = loop {
        let polled = std::thread::scope(|scope| {
            scope
                .spawn(|| batch.as_mut().poll(&mut Context::from_waker(&waker)))
                .join()
                .unwrap()
        });
        if let Poll::Ready(values) = polled {
            break values;
        }
    };
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(value.unwrap(), model.get(key).map(Vec::as_slice));
    }
    let entries = std::thread::scope(|scope| {
        scope
            .spawn(move || {
                block_on(async move {
                    let mut count = 0;
                    while stream.next().await.is_some() {
                        count += 1;
                    }
                    count
                })
            })
            .join()
            .unwrap()
    });
    assert_eq!(entries, model.len());
}
