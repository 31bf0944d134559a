//! What a TLS session trusts: the files, and the check of the server's certificate.
//!
//! [`super::connect`] asks for it. Invariant: only the modes that do not verify skip the check.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::{Tls, TlsMode};
use crate::Error;

/// The settings of a session.
pub(super) fn config(tls: &Tls) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let roots = match &tls.ca {
        Some(path) if tls.mode.verifies() => Some(roots(path)?),
        _ => None,
    };
    let verifier = Verifier {
        roots,
        checks_name: tls.mode == TlsMode::VerifyIdentity,
        provider: provider.clone(),
    };
    let failed = |error: rustls::Error| Error::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert, "ssl-cert")?, private_key(key)?)
            .map_err(|error| {
                Error::Tls(format!(
                    "ssl-cert {} with ssl-key {}: {error}",
                    cert.display(),
                    key.display()
                ))
            })?,
        _ => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    // Servers do not look at it, and a name that is not resolved publicly stays on this machine.
    config.enable_sni = false;
    Ok(config)
}

fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, "ssl-ca")? {
        roots.add(certificate).map_err(|error| {
            Error::Tls(format!(
                "ssl-ca {} holds a certificate that cannot be used: {error}",
                path.display()
            ))
        })?;
    }
    Ok(roots)
}

/// The certificates of a file, at least one.
fn certificates(path: &Path, parameter: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed =
        |why: &dyn std::fmt::Display| Error::Tls(format!("{parameter} {}: {why}", path.display()));
    let list: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&error))?;
    if list.is_empty() {
        return Err(failed(&"there is no certificate in PEM form in it"));
    }
    Ok(list)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        Error::Tls(format!(
            "ssl-key {}: {error} (it has to be a key in PEM form that is not encrypted)",
            path.display()
        ))
    })
}

/// A failed handshake, in terms of what the user gave.
pub(super) fn explain(error: &rustls::Error, tls: &Tls, host: &str) -> String {
    let rustls::Error::InvalidCertificate(why) = error else {
        return error.to_string();
    };
    let why = match why {
        // The latter is one by an authority of the same name, as all MySQLs of a version have.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "no authority in ssl-ca {} has signed it",
            tls.ca.as_deref().unwrap_or(Path::new("")).display()
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it is not for {host:?} (only its subject alternative names count)")
        }
        other => other.to_string(),
    };
    format!("the server's certificate is refused: {why}")
}

/// The check of the server's certificate; without `roots` there is none.
#[derive(Debug)]
struct Verifier {
    roots: Option<RootCertStore>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
            if self.checks_name {
                verify_server_name(&certificate, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    // Where every certificate is taken, a signature made with one proves nothing, and servers
    // still have certificates of version 1, with which it cannot be checked here.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.roots {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => verify_tls12_signature(
                message,
                certificate,
                signed,
                &self.provider.signature_verification_algorithms,
            ),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.roots {
            None => Ok(HandshakeSignatureValid::assertion()),
            Some(_) => verify_tls13_signature(
                message,
                certificate,
                signed,
                &self.provider.signature_verification_algorithms,
            ),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
