//! A replicated key-value store. Three processes make a cluster, here on one machine and without
//! encryption; `docs/replication.md` has it on three machines, with TLS and tokens:
//! ```sh
//! cargo build --example replicated_kv
//! alias kv=target/debug/examples/replicated_kv
//! kv node 1 127.0.0.1:7101 /tmp/kv1
//! kv node 2 127.0.0.1:7102 /tmp/kv2 --join 127.0.0.1:7101
//! kv node 3 127.0.0.1:7103 /tmp/kv3 --join 127.0.0.1:7101
//! ```
//! Each may be killed, and started again by its command. A client, in a fourth terminal:
//! ```sh
//! export KV_NODES=127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
//! kv put finch Fringilla; kv compare-and-set finch Fringilla Serinus; kv get finch; kv members
//! ```

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use koeldb_openraft::grpc::{Client, Node, NodeOptions, Security};
use koeldb_openraft::{Application, StateBatch};
use serde::{Deserialize, Serialize};

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

/// A replicated key-value store: a node of it, or a client.
#[derive(Parser)]
struct Arguments {
    /// Directory with ca.pem and tokens, of a node also node.pem and node.key; without it there is
    /// neither encryption nor authentication.
    #[arg(long, global = true, env = "KV_SECURITY", value_name = "DIR")]
    security: Option<PathBuf>,
    /// Addresses of the cluster that a client asks, separated by commas.
    #[arg(long, global = true, env = "KV_NODES", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Seconds after which a client gives up.
    #[arg(long, global = true, default_value_t = 10)]
    timeout: u64,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a node: of the cluster that it belongs to, that it joins, or else of a new one.
    Node(NodeArguments),
    /// Sets a key to a value.
    Put { key: String, value: String },
    /// Removes a key.
    Delete { key: String },
    /// Sets a key to a value if it has the expected one; prints whether it had.
    CompareAndSet {
        key: String,
        expected: String,
        value: String,
    },
    /// Prints the value of a key.
    Get { key: String },
    /// Lists the members of the cluster.
    Members,
    /// Adds a running node to the cluster, and waits until it has everything.
    Join { id: u64, address: String },
    /// Removes a node from the cluster.
    Leave { id: u64 },
}

#[derive(Args)]
struct NodeArguments {
    /// Number of the node, never that of another one.
    id: u64,
    /// Address at which the other nodes and clients reach it.
    address: String,
    /// Directory of its data.
    directory: PathBuf,
    /// Address to listen at, if it is another one (0.0.0.0:7101).
    #[arg(long)]
    listen: Option<String>,
    /// Address of a node whose cluster a new node joins.
    #[arg(long)]
    join: Option<String>,
}

async fn run_node(arguments: &NodeArguments, security: &Security) -> io::Result<()> {
    let NodeArguments { id, address, .. } = arguments;
    let listen = arguments.listen.as_ref().unwrap_or(address);
    let options = NodeOptions::new(security.clone());
    let node = Node::start(*id, listen, &arguments.directory, KeyValues, &options).await?;
    if !node.is_initialized().await? {
        match &arguments.join {
            None => node.initialize(address).await?,
            Some(member) => {
                let mut client = Client::<KeyValues>::new([member], security)?;
                client.set_timeout(Duration::from_secs(3600));
                client.add_node(*id, address).await?;
            }
        }
    }
    println!("node {id} serves {address}");
    println!("{}", node.stopped().await);
    Ok(())
}

async fn list_members(client: &mut Client<KeyValues>) -> io::Result<()> {
    let found = client.members().await?;
    for member in found.members {
        let role = match (member.id == found.leader, member.is_voter) {
            (true, _) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        };
        let behind = match member.matched_index {
            Some(index) => found.last_index.saturating_sub(index).to_string(),
            None => "unknown".to_owned(),
        };
        let (id, address) = (member.id, member.address);
        println!("{id}  {address}  {role}, entries behind: {behind}");
    }
    Ok(())
}

async fn run(arguments: Arguments) -> io::Result<()> {
    let security = match &arguments.security {
        Some(directory) => Security::read_dir(directory)?,
        None => Security::plaintext(),
    };
    if let Command::Node(node) = &arguments.command {
        return run_node(node, &security).await;
    }
    let mut client = Client::<KeyValues>::new(arguments.nodes, &security)?;
    client.set_timeout(Duration::from_secs(arguments.timeout));
    let request = match arguments.command {
        Command::Put { key, value } => Request::Put(key, value),
        Command::Delete { key } => Request::Delete(key),
        Command::CompareAndSet {
            key,
            expected,
            value,
        } => Request::CompareAndSet(key, expected, value),
        Command::Get { key } => {
            let value = client.get(key).await?;
            println!("{}", value.unwrap_or(b"(none)".to_vec()).escape_ascii());
            return Ok(());
        }
        Command::Members => return list_members(&mut client).await,
        Command::Join { id, address } => return client.add_node(id, &address).await,
        Command::Leave { id } => return client.remove_node(id).await,
        Command::Node(_) => unreachable!("it runs above"),
    };
    println!("{}", client.write(request).await?);
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
