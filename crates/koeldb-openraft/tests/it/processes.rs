//! Three processes of the example on loopback, with TLS, killed at random while clients write.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use koeldb_openraft::grpc::{Client, Security};
use koeldb_testkit::floors::Floors;
use koeldb_testkit::random::Random;

use crate::authority::Authority;
use crate::support::Scratch;

#[expect(dead_code, reason = "the example as a program has a main function")]
#[path = "../../examples/replicated_kv.rs"]
pub(crate) mod replicated_kv;

use replicated_kv::{KeyValues, Request};

/// The example that `cargo test` built.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let build = test.parent().and_then(Path::parent).unwrap();
    let program = build.join("examples/replicated_kv");
    assert!(
        program.exists(),
        "cargo build -p koeldb-openraft --example replicated_kv"
    );
    program
}

/// Listens on ports that no outgoing connection has: the system takes those from a range above.
///
/// One of that range may be that of somebody's connection while its node is down, even of a
/// connection to itself.
fn listen(count: usize) -> Vec<TcpListener> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.unwrap_or_default();
    let lowest = range.split_whitespace().next();
    let lowest = lowest.and_then(|port| port.parse().ok()).unwrap_or(32_768);
    let ports = 2_048..u16::max(lowest, 4_096);
    // Another run begins elsewhere.
    let begin = usize::try_from(std::process::id()).unwrap() % ports.len();
    let listeners: Vec<_> = (ports.clone().skip(begin).chain(ports))
        .filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok())
        .take(count)
        .collect();
    assert_eq!(listeners.len(), count, "no ports are free");
    listeners
}

struct Cluster {
    scratch: Scratch,
    addresses: Vec<String>,
    children: Vec<Child>,
}

impl Cluster {
    fn start() -> Self {
        // The ports are free now, and most likely remain so.
        let addresses = listen(3)
            .iter()
            .map(|listener| listener.local_addr().unwrap().to_string())
            .collect();
        let mut cluster = Cluster {
            scratch: Scratch::new("processes"),
            addresses,
            children: Vec::new(),
        };
        Authority::new().write_files(&cluster.security());
        for number in 0..3 {
            let mut child = cluster.spawn(number);
            // It serves once it has printed its line.
            let mut line = String::new();
            let output = child.stdout.take().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
            assert!(line.contains("serves"), "node {number}: {line:?}");
            cluster.children.push(child);
        }
        cluster
    }

    fn spawn(&self, number: usize) -> Child {
        let directory = self.scratch.0.join(number.to_string());
        let mut command = Command::new(program());
        command
            .arg("--security")
            .arg(self.security())
            .args(["node", &(number + 1).to_string(), &self.addresses[number]])
            .arg(directory)
            .stdout(Stdio::piped());
        if number > 0 {
            command.args(["--join", &self.addresses[0]]);
        }
        command.spawn().unwrap()
    }

    fn client(&self) -> Client<KeyValues> {
        let security = Security::read_dir(self.security()).unwrap();
        Client::new(self.addresses.clone(), &security).unwrap()
    }

    fn security(&self) -> PathBuf {
        self.scratch.0.join("security")
    }

    fn kill(&mut self, number: usize) {
        self.children[number].kill().unwrap();
        self.children[number].wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Writes ascending numbers to a key of its own; returns the last confirmed and the last tried one.
async fn write(
    mut client: Client<KeyValues>,
    writer: u64,
    stop: Arc<AtomicBool>,
    confirmed: Arc<AtomicU64>,
) -> (u64, u64) {
    client.set_timeout(Duration::from_secs(5));
    let (mut last, mut tried) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        tried += 1;
        let request = Request::Put(format!("writer {writer}"), tried.to_string());
        if client.write(request).await.is_ok() {
            last = tried;
            confirmed.fetch_add(1, Ordering::Relaxed);
        }
    }
    (last, tried)
}

#[test]
fn processes_that_are_killed_lose_no_confirmed_write() {
    let rounds = Floors::chosen().of(2, 20, 200);
    let seed = std::env::var("KOELDB_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut cluster = Cluster::start();
    let (stop, confirmed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            runtime.spawn(write(
                cluster.client(),
                writer,
                Arc::clone(&stop),
                Arc::clone(&confirmed),
            ))
        })
        .collect();
    let progress = |least: u64| {
        let from = confirmed.load(Ordering::Relaxed);
        runtime.block_on(async {
            let waiting = async {
                while confirmed.load(Ordering::Relaxed) < from + least {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let waited = tokio::time::timeout(Duration::from_secs(120), waiting).await;
            waited.expect("two of three nodes make progress");
        });
    };
    progress(20);
    for _ in 0..rounds {
        let number = usize::try_from(random.below(3)).unwrap();
        cluster.kill(number);
        progress(20);
        cluster.children[number] = cluster.spawn(number);
        progress(20);
    }
    // All at once.
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.children[number] = cluster.spawn(number));
    progress(20);
    stop.store(true, Ordering::Relaxed);

    let mut client = cluster.client();
    client.set_timeout(Duration::from_secs(120));
    let mut found = BTreeMap::new();
    for (number, writer) in (0_u64..).zip(writers) {
        let (last, tried) = runtime.block_on(writer).unwrap();
        let value = runtime
            .block_on(client.get(format!("writer {number}")))
            .unwrap()
            .unwrap();
        let value: u64 = String::from_utf8(value).unwrap().parse().unwrap();
        assert!(
            (last..=tried).contains(&value),
            "writer {number}: {value}, confirmed {last}, tried {tried}"
        );
        found.insert(number, (last, tried));
    }
    println!(
        "summary suite=raft_processes floors={} seed={seed} kills={} confirmed={} writers={found:?}",
        Floors::chosen().name(),
        rounds + 3,
        confirmed.load(Ordering::Relaxed)
    );
    let request =
        Request::CompareAndSet("writer 0".to_owned(), "no number".to_owned(), String::new());
    assert!(!runtime.block_on(client.write(request)).unwrap());
    runtime
        .block_on(client.write(Request::Delete("writer 0".to_owned())))
        .unwrap();
    assert_eq!(runtime.block_on(client.get("writer 0")).unwrap(), None);
}
