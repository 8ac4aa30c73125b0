//! Kubewarden's command-line tool.

use std::{env, fs, path::Path, path::PathBuf};

use anyhow::Result;
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use serde_json::json;
use sha2::{Digest, Sha256};

/// The kwctl that `KWCTL` names, else the one on the PATH.
pub fn find_kwctl() -> Option<PathBuf> {
    if let Some(named) = env::var_os("KWCTL").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join("kwctl"))
        .find(|path| path.is_file())
}

/// Writes a trust configuration for `--sigstore-trust-config`, with authorities that nobody knows:
/// without one kwctl fetches Sigstore's, even if a key verifies the signature.
pub fn write_trust_config(folder: &Path) -> Result<PathBuf> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::default().self_signed(&key)?;
    let public_key = key.subject_public_key_info();
    let valid = json!({"start": "2021-01-12T11:53:27.000Z"});
    let config = json!({
        "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
        "trustedRoot": {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [{
                "baseUrl": "https://rekor.invalid",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": BASE64_STANDARD.encode(&public_key),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": valid,
                },
                "logId": {"keyId": BASE64_STANDARD.encode(Sha256::digest(&public_key))},
            }],
            "certificateAuthorities": [{
                "subject": {"organization": "tests", "commonName": "tests"},
                "uri": "https://fulcio.invalid",
                "certChain": {
                    "certificates": [{"rawBytes": BASE64_STANDARD.encode(certificate.der())}],
                },
                "validFor": valid,
            }],
            "ctlogs": [],
            "timestampAuthorities": [],
        },
        "signingConfig": {},
    });
    let path = folder.join("sigstore-trust-config.json");
    fs::write(&path, config.to_string())?;
    Ok(path)
}
