//! Asks a policy server directly, without the API server between.

use anyhow::{Context, Result};
use hyper::Request;
use kube::{Client, Config};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};

/// Sends admission reviews to a policy server, as the API server does.
#[derive(Clone)]
pub struct ReviewClient(Client);

impl ReviewClient {
    /// A client for the server at that URL, whose certificate that authority signed.
    pub fn new(url: &str, authority: &str) -> Result<Self> {
        let authority = CertificateDer::from_pem_slice(authority.as_bytes())?;
        let mut config = Config::new(url.parse().with_context(|| url.to_owned())?);
        config.root_cert = Some(vec![authority.to_vec()]);
        Ok(Self(Client::try_from(config)?))
    }

    /// The answer of the policy with this id to a request.
    pub async fn ask(&self, policy: &str, request: &Value) -> Result<Value> {
        self.send(policy, review(request)).await
    }

    /// The same for a review that is written already, see [`review`].
    pub async fn send(&self, policy: &str, review: Vec<u8>) -> Result<Value> {
        self.send_to(&format!("/validate/{policy}"), review).await
    }

    /// The answer of any webhook at that path.
    pub async fn ask_at(&self, path: &str, request: &Value) -> Result<Value> {
        self.send_to(path, review(request)).await
    }

    async fn send_to(&self, path: &str, review: Vec<u8>) -> Result<Value> {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(review)?;
        let mut review: Value = self.0.request(request).await?;
        Ok(review["response"].take())
    }
}

/// The `AdmissionReview` of a request, as text.
pub fn review(request: &Value) -> Vec<u8> {
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into_bytes()
}
