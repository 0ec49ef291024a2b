//! Generates the gRPC services of `src/grpc`, whose messages are opaque bytes there.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "grpc")]
    services::generate();
}

#[cfg(feature = "grpc")]
mod services {
    use tonic_build::manual::{Builder, Method, Service};

    const PACKAGE: &str = "koeldb.replication.v1";

    /// A call with one message each way.
    fn unary(name: &str, route: &str, comment: &str) -> Method {
        method(name, route, comment).build()
    }

    fn method(name: &str, route: &str, comment: &str) -> tonic_build::manual::MethodBuilder {
        Method::builder()
            .name(name)
            .route_name(route)
            .comment(comment)
            .input_type("bytes::Bytes")
            .output_type("bytes::Bytes")
            .codec_path("crate::grpc::wire::Opaque")
    }

    pub(super) fn generate() {
        let raft = Service::builder()
            .name("Raft")
            .package(PACKAGE)
            .comment("The messages of Raft, between nodes.")
            .method(unary("append", "Append", "Appends entries."))
            .method(unary("vote", "Vote", "Asks for a vote."))
            .method(
                method("snapshot", "Snapshot", "Sends a snapshot.")
                    .client_streaming()
                    .server_streaming()
                    .build(),
            )
            .build();
        let membership = Service::builder()
            .name("Membership")
            .package(PACKAGE)
            .comment("Changes of the members of a cluster.")
            .method(unary("add", "Add", "Adds a node."))
            .method(unary("remove", "Remove", "Removes a node."))
            .build();
        let store = Service::builder()
            .name("Store")
            .package(PACKAGE)
            .comment("The requests of clients.")
            .method(unary("write", "Write", "Submits a request."))
            .method(unary("get", "Get", "Reads a key."))
            .method(unary("members", "Members", "Lists the members."))
            .build();
        Builder::new().compile(&[raft, membership, store]);
    }
}
