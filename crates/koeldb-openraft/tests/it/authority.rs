//! Certificates and tokens of a cluster at 127.0.0.1.

use std::path::Path;

use koeldb_openraft::grpc::Security;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

pub(crate) const CLUSTER: &str = "cluster-0123456789abcdef";
pub(crate) const FORMER_CLUSTER: &str = "former-0123456789abcdef";
pub(crate) const CLIENT: &str = "0123456789abcdef";

/// An authority that signs the certificates of nodes.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for 127.0.0.1, and its key.
    fn sign(&self) -> (String, String) {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn node(&self) -> Security {
        let (certificate, key) = self.sign();
        let mut security = Security::tls(&self.pem);
        security.set_identity(certificate, key);
        security.add_cluster_token(CLUSTER).unwrap();
        security.add_cluster_token(FORMER_CLUSTER).unwrap();
        security.add_client_token(CLIENT).unwrap();
        security
    }

    /// The files that `Security::read_dir` reads.
    pub(crate) fn write_files(&self, directory: &Path) {
        let (certificate, key) = self.sign();
        for (name, text) in [
            ("ca.pem", self.pem.as_str()),
            ("node.pem", &certificate),
            ("node.key", &key),
            ("cluster.token", CLUSTER),
        ] {
            write(directory, name, text);
        }
    }
}

/// Writes a file that an operator would write.
#[expect(clippy::disallowed_methods, reason = "the engine does not write it")]
pub(crate) fn write(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join(name), text).unwrap();
}
