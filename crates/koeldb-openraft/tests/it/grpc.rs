//! Nodes over gRPC within one process: snapshots as files, restarts, members, certificates and tokens.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use koeldb_openraft::grpc::{Client, Node, NodeOptions, Security};
use openraft::{Config, SnapshotPolicy};
use tokio::io::AsyncWriteExt;

use crate::authority::{self, Authority, CLIENT, CLUSTER, FORMER_CLUSTER};
use crate::processes::replicated_kv::{KeyValues, Request};
use crate::support::Scratch;

pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn options(security: &Security) -> NodeOptions {
    let mut options = NodeOptions::new(security.clone());
    options.set_raft_config(Config {
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        ..Config::default()
    });
    options
}

pub(crate) async fn start(
    id: u64,
    address: &str,
    scratch: &Scratch,
    security: &Security,
) -> Node<KeyValues> {
    let directory = scratch.0.join(id.to_string());
    let options = options(security);
    let node = Node::start(id, address, directory, KeyValues, &options);
    node.await.unwrap()
}

pub(crate) fn client(addresses: &[&String], security: &Security) -> Client<KeyValues> {
    let addresses = addresses.iter().copied().cloned();
    let mut client = Client::new(addresses, security).unwrap();
    client.set_timeout(Duration::from_secs(120));
    client
}

pub(crate) fn put(key: &str, value: &str) -> Request {
    Request::Put(key.to_owned(), value.to_owned())
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

#[test]
fn a_new_node_receives_a_snapshot_as_files() {
    run(async {
        let scratch = Scratch::new("grpc");
        let security = Authority::new().node();
        let addresses = [free_address(), free_address()];
        let first = start(1, &addresses[0], &scratch, &security).await;
        first.initialize(&addresses[0]).await.unwrap();
        let mut client = client(&[&addresses[0]], &security);
        for number in 0..200 {
            let put = put(&format!("key {number}"), &"v".repeat(5_000));
            assert!(client.write(put).await.unwrap());
        }
        let large = client.write(put("large", &"v".repeat(33 << 20))).await;
        let large = large.unwrap_err();
        assert!(
            large.to_string().contains("limit is: 33554432 bytes"),
            "{large}"
        );
        assert_eq!(large.kind(), io::ErrorKind::InvalidInput);

        let raft = first.raft();
        raft.trigger().snapshot().await.unwrap();
        let wait = raft.wait(Some(Duration::from_secs(120)));
        let is_purged = |metrics: &openraft::RaftMetrics<_, _>| {
            metrics.purged.is_some_and(|log_id| log_id.index >= 200)
        };
        wait.metrics(is_purged, "purged").await.unwrap();

        // A connection that sends anything else is closed, and harms nothing.
        let mut hostile = tokio::net::TcpStream::connect(&addresses[0]).await.unwrap();
        hostile.write_all(&[0xff; 64]).await.unwrap();

        let second = start(2, &addresses[1], &scratch, &security).await;
        client.add_node(2, &addresses[1]).await.unwrap();
        // Again: it is a member already.
        client.add_node(2, &addresses[1]).await.unwrap();
        let moved = client.add_node(2, &addresses[0]).await.unwrap_err();
        assert!(moved.to_string().contains("remove it first"), "{moved}");
        assert!(second.state().current_snapshot().is_some());
        let value = second.state().db().get("key 199").unwrap();
        assert_eq!(value.map(|value| value.len()), Some(5_000));
        let received = scratch.0.join("2/state/snapshots");
        let names: Vec<_> = std::fs::read_dir(received).unwrap().collect();
        assert_eq!(names.len(), 1, "what was received is removed: {names:?}");

        // Both are needed now. The second one continues from its files.
        second.shutdown().await.unwrap();
        let address = addresses[1].clone();
        let adding = tokio::spawn(async move {
            let added = client.add_node(2, &address).await;
            added.map(|()| client)
        });
        // Enough for the leader to find that it has no majority, in which it must not give up.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = start(2, &addresses[1], &scratch, &security).await;
        let mut client = adding.await.unwrap().unwrap();
        assert!(client.write(put("key 0", "new")).await.unwrap());
        assert_eq!(client.get("key 0").await.unwrap().unwrap(), b"new");
        second.shutdown().await.unwrap();
        first.shutdown().await.unwrap();
    });
}

#[test]
fn nodes_join_and_leave_even_the_leader() {
    run(async {
        let scratch = Scratch::new("grpc-members");
        let security = Security::plaintext();
        let addresses = [free_address(), free_address(), free_address()];
        let first = start(1, &addresses[0], &scratch, &security).await;
        first.initialize(&addresses[0]).await.unwrap();
        let mut client = client(&addresses.each_ref(), &security);
        assert!(client.write(put("a", "1")).await.unwrap());
        let second = start(2, &addresses[1], &scratch, &security).await;
        let third = start(3, &addresses[2], &scratch, &security).await;
        client.add_node(2, &addresses[1]).await.unwrap();
        client.add_node(3, &addresses[2]).await.unwrap();
        let found = client.members().await.unwrap();
        let ids: Vec<(u64, bool)> = (found.members.iter())
            .map(|member| (member.id, member.is_voter))
            .collect();
        assert_eq!(
            (found.leader, ids),
            (1, vec![(1, true), (2, true), (3, true)])
        );
        assert_eq!(found.members[2].address, addresses[2]);

        client.remove_node(1).await.unwrap();
        first.shutdown().await.unwrap();
        assert!(client.write(put("a", "2")).await.unwrap());
        let found = client.members().await.unwrap();
        assert!(found.leader != 1 && found.members.len() == 2, "{found:?}");
        let stranger = client.remove_node(7).await.unwrap_err();
        assert!(
            stranger.to_string().contains("node 7 is no member"),
            "{stranger}"
        );

        let other = if found.leader == 2 { 3 } else { 2 };
        client.remove_node(other).await.unwrap();
        assert!(client.write(put("a", "3")).await.unwrap());
        let last = client.remove_node(found.leader).await.unwrap_err();
        assert!(last.to_string().contains("empty"), "{last}");
        assert_eq!(client.get("a").await.unwrap().unwrap(), b"3");
        second.shutdown().await.unwrap();
        third.shutdown().await.unwrap();
    });
}

#[test]
fn messages_for_another_node_at_the_address_are_refused() {
    run(async {
        let scratch = Scratch::new("grpc-address");
        let security = Security::plaintext();
        let addresses = [free_address(), free_address()];
        let first = start(1, &addresses[0], &scratch, &security).await;
        first.initialize(&addresses[0]).await.unwrap();
        let other = start(9, &addresses[1], &scratch, &security).await;
        let mut client = client(&[&addresses[0]], &security);
        client.set_timeout(Duration::from_secs(3));
        // Node 2 is said to be where node 9 is.
        let unreached = client.add_node(2, &addresses[1]).await.unwrap_err();
        assert_eq!(unreached.kind(), io::ErrorKind::TimedOut, "{unreached}");
        let metrics = other.raft().metrics().borrow().clone();
        assert_eq!(metrics.last_log_index, None);
        // It does not vote, and the cluster works.
        assert!(client.write(put("a", "1")).await.unwrap());
        let found = client.members().await.unwrap();
        assert_eq!(
            (found.members[1].is_voter, found.members[1].matched_index),
            (false, None)
        );
        client.remove_node(2).await.unwrap();
        assert_eq!(client.members().await.unwrap().members.len(), 1);
        first.shutdown().await.unwrap();
        other.shutdown().await.unwrap();
    });
}

#[test]
fn certificates_and_tokens_are_demanded() {
    run(async {
        let scratch = Scratch::new("grpc-security");
        let authority = Authority::new();
        let security = authority.node();
        let address = free_address();
        let node = start(1, &address, &scratch, &security).await;
        node.initialize(&address).await.unwrap();
        let refusal = async |security: &Security, request: &str| {
            let mut client = client(&[&address], security);
            client.set_timeout(Duration::from_secs(3));
            let answered = match request {
                "join" => client.add_node(2, "127.0.0.1:1").await,
                "leave" => client.remove_node(1).await,
                "get" => client.get("a").await.map(|_| ()),
                "members" => client.members().await.map(|_| ()),
                _ => client.write(put("a", "1")).await.map(|_| ()),
            };
            answered.map_err(|error| (error.kind(), error.to_string()))
        };
        let everything = ["put", "get", "members", "join", "leave"];
        use io::ErrorKind::{NotConnected, PermissionDenied};

        let mut user = Security::tls(&authority.pem);
        let none = user.clone();
        user.add_client_token(CLIENT).unwrap();
        for request in ["put", "get", "members"] {
            refusal(&user, request).await.unwrap();
        }
        let mut stranger = Security::tls(&authority.pem);
        stranger
            .add_client_token("another token of 16")
            .unwrap_err();
        stranger.add_client_token("anothertokenof16").unwrap();
        for (security, requests) in [
            (&user, &everything[3..]),
            (&none, &everything[..]),
            (&stranger, &everything[..]),
        ] {
            for request in requests {
                let (kind, text) = refusal(security, request).await.unwrap_err();
                assert_eq!(kind, PermissionDenied, "{request}: {text}");
                assert!(text.contains("token"), "{text}");
            }
        }

        // A token that is on its way out is accepted as well.
        let mut leaving = Security::tls(&authority.pem);
        leaving.add_cluster_token(FORMER_CLUSTER).unwrap();
        refusal(&leaving, "members").await.unwrap();

        // Without encryption, and with another authority, nothing is said.
        let (kind, text) = refusal(&Security::plaintext(), "get").await.unwrap_err();
        assert_eq!(kind, NotConnected, "{text}");
        let (kind, text) = refusal(&Authority::new().node(), "put").await.unwrap_err();
        assert_eq!(kind, NotConnected, "{text}");
        assert!(text.contains("certificate"), "{text}");
        node.shutdown().await.unwrap();
    });
}

#[test]
fn a_node_that_would_be_open_by_mistake_does_not_start() {
    run(async {
        let scratch = Scratch::new("grpc-open");
        let authority = Authority::new();
        let mut in_the_clear = Security::plaintext();
        in_the_clear.add_cluster_token(CLUSTER).unwrap();
        let mut unnamed = Security::tls(&authority.pem);
        unnamed.add_cluster_token(CLUSTER).unwrap();
        for (security, reason) in [(in_the_clear, "without TLS"), (unnamed, "certificate")] {
            let options = options(&security);
            let started = Node::start(1, "127.0.0.1:0", &scratch.0, KeyValues, &options);
            let error = started.await.err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert!(!scratch.0.exists(), "nothing was created");
    });
}

#[test]
fn a_directory_of_another_node_is_refused() {
    run(async {
        let scratch = Scratch::new("grpc-number");
        let security = Security::plaintext();
        let address = free_address();
        let node = start(1, &address, &scratch, &security).await;
        node.initialize(&address).await.unwrap();
        node.shutdown().await.unwrap();
        let options = options(&security);
        let directory = scratch.0.join("1");
        let other = Node::start(2, &address, &directory, KeyValues, &options).await;
        let error = other.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("that of node 1"), "{error}");
        let again = Node::start(1, &address, &directory, KeyValues, &options).await;
        assert!(again.unwrap().is_initialized().await.unwrap());
    });
}

#[test]
fn security_is_read_from_a_directory() {
    let scratch = Scratch::new("grpc-files");
    let missing = Security::read_dir(&scratch.0).unwrap_err();
    assert!(missing.to_string().contains("ca.pem"), "{missing}");
    let write = |name: &str, text: &str| authority::write(&scratch.0, name, text);
    write("ca.pem", &Authority::new().pem);
    write("cluster.token", "short\n");
    let short = Security::read_dir(&scratch.0).unwrap_err();
    assert!(short.to_string().contains("at least 16"), "{short}");
    write("cluster.token", &format!("{CLIENT}\n{CLUSTER}\n"));
    let security = Security::read_dir(&scratch.0).unwrap();
    let shown = format!("{security:?}");
    assert!(
        shown.contains("cluster_tokens: 2") && !shown.contains(CLIENT),
        "{shown}"
    );
}
