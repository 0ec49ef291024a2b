//! Encryption and authentication of the connections of a cluster.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb::Env;
use koeldb::fs::FileSystem;
use koeldb::fs::file::OpenOptions;
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};

use crate::snapshot::for_each_piece;

/// The time in which a connection must be established.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// The time without a sign of life after which the peer of a connection is asked for one, and in which it
/// must answer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How the connections of a cluster are encrypted and authenticated.
///
/// With TLS, nodes prove by certificates who they are, and every call carries a token that proves that
/// its sender may make it: the cluster's opens everything, that of clients reads, writes and the list
/// of members. Tokens are never sent without encryption.
///
/// The authority, certificates and keys are those of any public key infrastructure, in PEM;
/// `docs/replication.md` makes a set with `openssl`. A certificate must name the host by which others
/// reach the node (a subject alternative name).
#[derive(Clone)]
pub struct Security {
    tls: Option<Tls>,
    cluster_tokens: Vec<Token>,
    client_tokens: Vec<Token>,
}

#[derive(Clone)]
struct Tls {
    authority: Certificate,
    identity: Option<Identity>,
}

/// A token as the value of the header `authorization`.
type Token = MetadataValue<Ascii>;

impl Security {
    /// Returns connections without encryption and authentication.
    ///
    /// Everyone who reaches a port of the cluster can then read, write and take part: for tests, and
    /// for networks that have both themselves.
    #[must_use]
    pub fn plaintext() -> Self {
        Security {
            tls: None,
            cluster_tokens: Vec::new(),
            client_tokens: Vec::new(),
        }
    }

    /// Returns connections with TLS to nodes whose certificates `authority` (PEM) has signed.
    ///
    /// Needs a token, and for a [`Node`](super::Node) an identity.
    #[must_use]
    pub fn tls(authority: impl AsRef<[u8]>) -> Self {
        Security {
            tls: Some(Tls {
                authority: Certificate::from_pem(authority),
                identity: None,
            }),
            ..Self::plaintext()
        }
    }

    /// Reads the files of a directory: `ca.pem`, and `node.pem`, `node.key`, `cluster.token` and
    /// `client.token` if they exist. Each line of the latter two is a token.
    ///
    /// # Errors
    /// If `ca.pem` or one of the others cannot be read, or a token is refused.
    pub fn read_dir(directory: impl AsRef<Path>) -> io::Result<Self> {
        let directory = directory.as_ref();
        let env = Env::default();
        let fs = &**env.file_system();
        let read = |name: &str| {
            let path = directory.join(name);
            match fs.exists(&path)? {
                true => Ok::<_, io::Error>(Some(read_file(fs, &path)?)),
                false => Ok(None),
            }
        };
        let authority = read_file(fs, &directory.join("ca.pem"))?;
        let mut security = Self::tls(authority);
        if let (Some(certificate), Some(key)) = (read("node.pem")?, read("node.key")?) {
            security.set_identity(certificate, key);
        }
        for (name, tokens) in [
            ("cluster.token", &mut security.cluster_tokens),
            ("client.token", &mut security.client_tokens),
        ] {
            let text = read(name)?.unwrap_or_default();
            for token in String::from_utf8_lossy(&text).split_whitespace() {
                tokens.push(parse_token(token)?);
            }
        }
        Ok(security)
    }

    /// Sets the certificate chain and private key (PEM) of a node. Without TLS they have no effect.
    pub fn set_identity(
        &mut self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> &mut Self {
        if let Some(tls) = &mut self.tls {
            tls.identity = Some(Identity::from_pem(certificate, key));
        }
        self
    }

    /// Adds a token that opens all calls: of nodes, and of those who change the members.
    ///
    /// The first one is sent, all are accepted. So a token is changed while the cluster works: every
    /// node gets the new one as its second, then as its first, then alone.
    ///
    /// # Errors
    /// If it has fewer than 16 characters, or others than visible ASCII.
    pub fn add_cluster_token(&mut self, token: &str) -> io::Result<&mut Self> {
        self.cluster_tokens.push(parse_token(token)?);
        Ok(self)
    }

    /// Adds a token that opens reads, writes and the list of members.
    ///
    /// A node without one demands the cluster's token of clients, too. See
    /// [`Security::add_cluster_token`] for its change.
    ///
    /// # Errors
    /// See [`Security::add_cluster_token`].
    pub fn add_client_token(&mut self, token: &str) -> io::Result<&mut Self> {
        self.client_tokens.push(parse_token(token)?);
        Ok(self)
    }

    /// Returns the configured server of a node.
    pub(super) fn server(&self) -> io::Result<Server> {
        self.check_tokens()?;
        let server = Server::builder()
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE));
        let Some(tls) = &self.tls else {
            return Ok(server);
        };
        let Some(identity) = &tls.identity else {
            return Err(refused("a node needs a certificate and its key"));
        };
        if self.cluster_tokens.is_empty() {
            return Err(refused("a node needs the token of its cluster"));
        }
        let tls = ServerTlsConfig::new().identity(identity.clone());
        server.tls_config(tls).map_err(|error| tls_error(&error))
    }

    /// Returns the endpoint of the node at this address.
    pub(super) fn endpoint(&self, address: &str) -> io::Result<Endpoint> {
        self.check_tokens()?;
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(|error| refused(format!("{address:?} is no address HOST:PORT: {error}")))?
            .connect_timeout(CONNECT_MAX)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let Some(tls) = &self.tls else {
            return Ok(endpoint);
        };
        let tls = ClientTlsConfig::new().ca_certificate(tls.authority.clone());
        endpoint.tls_config(tls).map_err(|error| tls_error(&error))
    }

    /// Fails if a token would be sent without encryption.
    fn check_tokens(&self) -> io::Result<()> {
        if self.tls.is_none() && !(self.cluster_tokens.is_empty() && self.client_tokens.is_empty())
        {
            return Err(refused("a token must not be sent without TLS"));
        }
        Ok(())
    }

    /// Returns what adds this side's token to its calls.
    pub(super) fn bearer(&self) -> Bearer {
        let mut tokens = self.cluster_tokens.iter().chain(&self.client_tokens);
        Bearer(tokens.next().cloned())
    }

    /// Returns the guard of calls that only nodes and operators may make.
    pub(super) fn cluster_guard(&self) -> Guard {
        Guard(self.cluster_tokens.clone().into())
    }

    /// Returns the guard of calls that clients may make.
    pub(super) fn client_guard(&self) -> Guard {
        let tokens = self.cluster_tokens.iter().chain(&self.client_tokens);
        Guard(tokens.cloned().collect())
    }
}

impl fmt::Debug for Security {
    /// Keys and tokens are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security")
            .field("tls", &self.tls.is_some())
            .field("cluster_tokens", &self.cluster_tokens.len())
            .field("client_tokens", &self.client_tokens.len())
            .finish()
    }
}

/// Reads a whole file.
fn read_file(fs: &dyn FileSystem, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, &OpenOptions::default())?;
    let mut bytes = Vec::new();
    for_each_piece(&*file, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

fn refused(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}

fn tls_error(error: &tonic::transport::Error) -> io::Error {
    refused(describe(error))
}

/// Returns the errors that caused this one, the nearest first.
pub(super) fn causes(error: &dyn Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// Returns the text of an error and of those that caused it; the first alone says little.
pub(super) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in causes(error).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn parse_token(token: &str) -> io::Result<Token> {
    const CHARACTERS_MIN: usize = 16;
    if token.len() < CHARACTERS_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused(format!(
            "a token has at least {CHARACTERS_MIN} characters, all visible ASCII"
        )));
    }
    let mut value: Token = format!("Bearer {token}")
        .parse()
        .map_err(|_| refused("a token has visible ASCII"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Adds the token to calls.
#[derive(Clone)]
pub(super) struct Bearer(Option<Token>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// Refuses calls without one of these tokens; without any, all pass.
#[derive(Clone)]
pub(super) struct Guard(Arc<[Token]>);

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let found = request.metadata().get("authorization");
        let is_equal = |token: &Token| {
            found.is_some_and(|found| token.as_bytes().ct_eq(found.as_bytes()).into())
        };
        if self.0.is_empty() || self.0.iter().any(is_equal) {
            return Ok(request);
        }
        Err(Status::unauthenticated(match found {
            None => "the call has no token; set that of the cluster or of its clients",
            Some(_) => {
                "the token does not open this call: it is another cluster's, or that of clients"
            }
        }))
    }
}
