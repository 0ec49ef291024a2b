//! Nodes over gRPC with a link between them that is slow, or counts connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use koeldb_openraft::grpc::Security;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::grpc::{client, free_address, put, run, start};
use crate::support::Scratch;

/// An address whose connections are forwarded, each way with at most `rate` bytes a second.
struct Link {
    address: String,
    connections: Arc<AtomicU64>,
}

impl Link {
    async fn new(target: &str, rate: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(AtomicU64::new(0));
        let (target, count) = (target.to_owned(), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let Ok(far) = TcpStream::connect(&target).await else {
                    continue;
                };
                let (from_near, to_near) = near.into_split();
                let (from_far, to_far) = far.into_split();
                tokio::spawn(forward(from_near, to_far, rate));
                tokio::spawn(forward(from_far, to_near, rate));
            }
        });
        Link {
            address,
            connections,
        }
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, rate: usize) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        let seconds = read as f64 / rate as f64;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
}

#[test]
fn a_request_larger_than_a_heartbeat_can_carry_is_replicated() {
    run(async {
        let scratch = Scratch::new("slow-link");
        let security = Security::plaintext();
        let addresses = [free_address(), free_address()];
        let first = start(1, &addresses[0], &scratch, &security).await;
        first.initialize(&addresses[0]).await.unwrap();
        let second = start(2, &addresses[1], &scratch, &security).await;
        let link = Link::new(&addresses[1], 8 << 20).await;
        let mut client = client(&[&addresses[0]], &security);
        client.add_node(2, &link.address).await.unwrap();
        // A heartbeat's interval is 50 ms.
        let large = put("large", &"v".repeat(8 << 20));
        assert!(client.write(large).await.unwrap());
        second.shutdown().await.unwrap();
        first.shutdown().await.unwrap();
    });
}

#[test]
fn reads_share_a_connection() {
    run(async {
        let scratch = Scratch::new("shared-link");
        let security = Security::plaintext();
        let addresses = [free_address(), free_address()];
        let first = start(1, &addresses[0], &scratch, &security).await;
        first.initialize(&addresses[0]).await.unwrap();
        let second = start(2, &addresses[1], &scratch, &security).await;
        let link = Link::new(&addresses[1], usize::MAX).await;
        let mut client = client(&[&addresses[0]], &security);
        client.add_node(2, &link.address).await.unwrap();
        assert!(client.write(put("a", "1")).await.unwrap());
        for _ in 0..100 {
            assert_eq!(client.get("a").await.unwrap().unwrap(), b"1");
        }
        let connections = link.connections.load(Ordering::Relaxed);
        // Elections and changes of the members open some.
        assert!(connections < 50, "{connections} connections for 100 reads");
        second.shutdown().await.unwrap();
        first.shutdown().await.unwrap();
    });
}
