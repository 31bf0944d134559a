//! An authority and what it signs, made for one test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority whose files lie in a directory of the test's.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: PathBuf,
    /// Its certificate.
    pub(super) pem: PathBuf,
}

impl Authority {
    pub(super) fn new(dir: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = dir.join(format!("{name}.pem"));
        std::fs::write(&pem, params.self_signed(&key).unwrap().pem()).unwrap();
        Authority {
            issuer: Issuer::new(params, key),
            dir: dir.to_owned(),
            pem,
        }
    }

    /// A certificate for these names, and its key.
    pub(super) fn sign(&self, name: &str, alternatives: &[&str]) -> (PathBuf, PathBuf) {
        let names: Vec<String> = alternatives.iter().map(|&name| name.into()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let (cert, pem) = (
            self.dir.join(format!("{name}-cert.pem")),
            self.dir.join(format!("{name}-key.pem")),
        );
        std::fs::write(&cert, signed.pem()).unwrap();
        std::fs::write(&pem, key.serialize_pem()).unwrap();
        (cert, pem)
    }
}
