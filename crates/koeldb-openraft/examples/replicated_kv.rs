//! A replicated key-value store. Three processes make a cluster:
//! ```sh
//! cargo run --example replicated_kv -- node 1 127.0.0.1:7101 /tmp/kv1
//! cargo run --example replicated_kv -- node 2 127.0.0.1:7102 /tmp/kv2 127.0.0.1:7101
//! cargo run --example replicated_kv -- node 3 127.0.0.1:7103 /tmp/kv3 127.0.0.1:7101
//! ```
//! Each may be killed, and started again by its command. A client, in a fourth terminal:
//! ```sh
//! alias kv='cargo run -q --example replicated_kv -- 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103'
//! kv put finch Fringilla; kv compare_and_set finch Fringilla Serinus; kv get finch; kv delete finch
//! ```

use koeldb::Options;
use koeldb_openraft::tcp::{Client, Node};
use koeldb_openraft::{Application, StateBatch};
use serde::{Deserialize, Serialize};
use std::{env, fmt, io};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Put(String, String),
    Delete(String),
    CompareAndSet(String, String, String),
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

pub(crate) struct KeyValues;

impl Application for KeyValues {
    type Request = Request;
    type Response = bool;
    fn apply(&self, state: &mut StateBatch, request: &Request) -> io::Result<bool> {
        match request {
            Request::Put(key, value) => state.put(key, value),
            Request::Delete(key) => state.delete(key),
            Request::CompareAndSet(key, expected, value) => {
                if state.get(key)?.as_deref() != Some(expected.as_bytes()) {
                    return Ok(false);
                }
                state.put(key, value);
            }
        }
        Ok(true)
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (own, usage) = (str::to_owned, || {
        io::Error::other("see the head of the source")
    });
    let client = |addresses: &str| Client::<KeyValues>::new(addresses.split(','));
    match arguments[..] {
        ["node", id, address, directory, ref others @ ..] => {
            let id = id.parse().map_err(io::Error::other)?;
            let (options, config) = (Options::new(), openraft::Config::default());
            let node = Node::start(id, address, directory, &options, config, KeyValues).await?;
            if !node.is_initialized().await? {
                match others.first() {
                    None => node.initialize(address).await?,
                    Some(others) => client(others).add_node(id, address).await?,
                }
            }
            println!("node {id} serves {address}");
            println!("{}", node.stopped().await);
        }
        [nodes, "get", key] => {
            let value = client(nodes).get(key).await?;
            println!("{}", value.unwrap_or(b"(none)".to_vec()).escape_ascii());
        }
        [nodes, ref request @ ..] => {
            let request = match *request {
                ["put", k, value] => Request::Put(own(k), own(value)),
                ["delete", k] => Request::Delete(own(k)),
                ["compare_and_set", k, a, b] => Request::CompareAndSet(own(k), own(a), own(b)),
                _ => return Err(usage()),
            };
            println!("{}", client(nodes).write(request).await?);
        }
        [] => return Err(usage()),
    }
    Ok(())
}
