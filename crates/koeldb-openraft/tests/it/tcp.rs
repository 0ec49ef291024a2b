//! Nodes over TCP within one process: snapshots as files, restarts, hostile bytes.

use std::net::TcpListener;
use std::time::Duration;

use koeldb::Options;
use koeldb_openraft::tcp::{Client, Node, Types};
use openraft::alias::LogIdOf;
use openraft::{Config, SnapshotPolicy};
use tokio::io::AsyncWriteExt;

use crate::processes::replicated_kv::{KeyValues, Request};
use crate::support::Scratch;

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

async fn start(id: u64, address: &str, scratch: &Scratch) -> Node<KeyValues> {
    let config = Config {
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        ..Config::default()
    };
    let directory = scratch.0.join(id.to_string());
    let options = Options::new();
    let node = Node::start(id, address, directory, &options, config, KeyValues);
    node.await.unwrap()
}

#[test]
fn a_new_node_receives_a_snapshot_as_files() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let scratch = Scratch::new("tcp");
        let addresses = [free_address(), free_address()];
        let first = start(1, &addresses[0], &scratch).await;
        first.initialize(&addresses[0]).await.unwrap();
        let mut client = Client::<KeyValues>::new([&addresses[0]]);
        client.set_timeout(Duration::from_secs(120));
        for number in 0..200 {
            let put = Request::Put(format!("key {number}"), "v".repeat(5_000));
            assert!(client.write(put).await.unwrap());
        }
        let large = Request::Put("large".to_owned(), "v".repeat(33 << 20));
        let refused = client.write(large).await.unwrap_err().to_string();
        assert!(refused.contains("33554432 are allowed"), "{refused}");

        let raft = first.raft();
        raft.trigger().snapshot().await.unwrap();
        let is_purged =
            |purged: Option<LogIdOf<Types<KeyValues>>>| purged.is_some_and(|id| id.index() >= 200);
        let wait = raft.wait(Some(Duration::from_secs(120)));
        let purged = wait.metrics(|metrics| is_purged(metrics.purged), "purged");
        purged.await.unwrap();

        // A connection that sends anything else is closed, and harms nothing.
        let mut hostile = tokio::net::TcpStream::connect(&addresses[0]).await.unwrap();
        hostile.write_all(&[0xff; 64]).await.unwrap();

        let second = start(2, &addresses[1], &scratch).await;
        client.add_node(2, &addresses[1]).await.unwrap();
        assert!(second.state().current_snapshot().is_some());
        let value = second.state().db().get("key 199").unwrap();
        assert_eq!(value.map(|value| value.len()), Some(5_000));
        let received = scratch.0.join("2/state/snapshots");
        let names: Vec<_> = std::fs::read_dir(received).unwrap().collect();
        assert_eq!(names.len(), 1, "what was received is removed: {names:?}");

        // Both are needed now. The second one continues from its files.
        second.shutdown().await.unwrap();
        let second = start(2, &addresses[1], &scratch).await;
        let put = Request::Put("key 0".to_owned(), "new".to_owned());
        assert!(client.write(put).await.unwrap());
        assert_eq!(client.get("key 0").await.unwrap().unwrap(), b"new");
        second.shutdown().await.unwrap();
        first.shutdown().await.unwrap();
    });
}
