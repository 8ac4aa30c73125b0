//! An HTTPS admission webhook around a policy. To the API server it looks like PolicyServer.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State, rejection::JsonRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use axum_server::tls_rustls::RustlsConfig;
use kube::Client;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::Semaphore, task::JoinHandle};

use super::{
    host_calls::HostCalls,
    kubernetes::KubernetesHost,
    module::{Evaluation, PolicyModule, check_settings},
    review::{ReviewRequest, ReviewResponse},
};
use crate::{
    control_plane::ServerCertificate,
    kubewarden::{policy::Policy, probe::send_probe},
    sidecar,
    wait::{Progress, wait_for},
};

/// The longest request that PolicyServer reads, in bytes. It refuses a longer one with 413.
pub const MAX_REQUEST: usize = 2 * 1024 * 1024;

/// How the webhook is set up.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The policy's settings.
    pub settings: Value,
    /// How many requests are evaluated at once. PolicyServer has one worker per CPU.
    pub workers: usize,
    /// How long the API server waits for an answer.
    pub timeout_seconds: u8,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            settings: json!({}),
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            timeout_seconds: 10,
        }
    }
}

/// A request that was served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Id of the policy.
    pub policy: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object, if it had one.
    pub name: String,
    /// CREATE, UPDATE, ….
    pub operation: String,
    /// The evaluation.
    pub evaluation: Evaluation,
}

/// A running webhook. Dropping it stops it.
pub struct Webhook {
    shared: Arc<Shared>,
    url: String,
    authority: String,
    /// The policies that are registered with the API server.
    policies: Vec<Policy>,
    server: JoinHandle<()>,
    handle: axum_server::Handle<std::net::SocketAddr>,
}

struct Shared {
    module: PolicyModule,
    settings: Mutex<Value>,
    /// The other policies of this server, with their settings.
    others: Mutex<Vec<(PolicyModule, Value)>>,
    host: Arc<dyn HostCalls>,
    workers: Arc<Semaphore>,
    served: Mutex<Vec<Served>>,
}

impl Webhook {
    /// Starts the server on that runtime, with the permissions that the policy's metadata ask for.
    /// The client is that of PolicyServer's user and must belong to the runtime.
    pub fn start(
        runtime: &Handle,
        client: Client,
        module: PolicyModule,
        options: WebhookOptions,
    ) -> Result<Self> {
        let policy = policy_of(&module, options.timeout_seconds)?;
        Self::serve(runtime, client, module, vec![policy], options)
    }

    /// Starts the server for policies that `ClusterAdmissionPolicy` objects install, all made of
    /// one module, each with its settings and only the permissions that it grants, whatever the
    /// module's metadata ask for.
    pub fn start_installed(
        runtime: &Handle,
        client: Client,
        module: &PolicyModule,
        policies: Vec<Policy>,
    ) -> Result<Self> {
        let (first, others) = policies.split_first().context("no policy")?;
        let options = WebhookOptions {
            settings: first.settings(),
            ..WebhookOptions::default()
        };
        let others = others.to_vec();
        let webhook = Self::serve(
            runtime,
            client,
            module.installed_by(first)?,
            policies,
            options,
        )?;
        others
            .iter()
            .try_for_each(|policy| webhook.serve_other(policy))?;
        Ok(webhook)
    }

    fn serve(
        runtime: &Handle,
        client: Client,
        module: PolicyModule,
        policies: Vec<Policy>,
        options: WebhookOptions,
    ) -> Result<Self> {
        check_settings(&module, &options.settings)?;
        let host = KubernetesHost::new(runtime.clone(), client);
        let shared = Arc::new(Shared {
            module,
            settings: Mutex::new(options.settings),
            others: Mutex::default(),
            host: Arc::new(host),
            workers: Arc::new(Semaphore::new(options.workers.max(1))),
            served: Mutex::default(),
        });
        let certificate = ServerCertificate::generate("policy-server")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let tls = RustlsConfig::from_config(Arc::new(tls(&certificate)?));
        let router = Router::new()
            .route("/validate/{policy}", post(validate))
            .route("/readiness", get(async || StatusCode::OK))
            .layer(DefaultBodyLimit::max(MAX_REQUEST))
            .with_state(shared.clone());
        let handle = axum_server::Handle::new();
        let _context = runtime.enter();
        let server = axum_server::from_tcp_rustls(listener, tls)?.handle(handle.clone());
        let server = runtime.spawn(async move {
            if let Err(error) = server.serve(router.into_make_service()).await {
                tracing::error!("webhook: {error}");
            }
        });
        let authority = certificate.authority;
        Ok(Self {
            shared,
            url,
            authority,
            policies,
            server,
            handle,
        })
    }

    /// Serves another policy on the same workers, made of the same module. It is not registered.
    pub fn serve_other(&self, policy: &Policy) -> Result<()> {
        self.serve_module(&self.shared.module, policy)
    }

    /// Serves a policy of another module on the same workers. It is not registered.
    pub fn serve_module(&self, module: &PolicyModule, policy: &Policy) -> Result<()> {
        let module = module.installed_by(policy)?;
        check_settings(&module, &policy.settings())?;
        lock(&self.shared.others).push((module, policy.settings()));
        Ok(())
    }

    /// Registers the policies and waits until the API server calls each.
    pub async fn register(&self, admin: &Client) -> Result<()> {
        for policy in &self.policies {
            policy.register(admin, &self.url, &self.authority).await?;
        }
        for policy in &self.policies {
            self.wait_until_called(policy, admin, true).await?;
        }
        self.forget();
        Ok(())
    }

    /// Removes the registrations, and waits until the API server calls no policy any more. Forgets
    /// the requests so far.
    pub async fn unregister(&self, admin: &Client) -> Result<()> {
        for policy in &self.policies {
            policy.unregister(admin).await?;
        }
        for policy in &self.policies {
            self.wait_until_called(policy, admin, false).await?;
        }
        Ok(())
    }

    /// The webhook configuration that Kubewarden's controller would write for the first policy.
    pub fn configuration(&self) -> Value {
        self.policies[0].webhook_configuration(&self.url, &self.authority)
    }

    /// Uses other settings for the first policy from now on. Fails if the policy refuses them.
    pub fn set_settings(&self, settings: Value) -> Result<()> {
        check_settings(&self.shared.module, &settings)?;
        *lock(&self.shared.settings) = settings;
        Ok(())
    }

    /// The first policy.
    pub fn module(&self) -> &PolicyModule {
        &self.shared.module
    }

    /// The server's address, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority that signed the server's certificate.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// All requests since the start or since [`forget`](Self::forget), in the order of their
    /// answers.
    pub fn served(&self) -> Vec<Served> {
        lock(&self.shared.served).clone()
    }

    /// The number of these requests.
    pub fn evaluations(&self) -> usize {
        lock(&self.shared.served).len()
    }

    /// Takes all workers: from now on it accepts requests and answers none.
    pub fn hang(&self) {
        self.shared.workers.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        lock(&self.shared.served).clear();
    }

    /// Waits until the API server calls the policy or no longer does, which happens a moment after
    /// its registration or its removal. Returns at once if no request for it can be made.
    async fn wait_until_called(&self, policy: &Policy, admin: &Client, wanted: bool) -> Result<()> {
        let id = policy.id();
        wait_for(
            &format!("the API server to call {id}: {wanted}"),
            Duration::from_mins(2),
            async || {
                // A call from before the registration says nothing.
                self.forget();
                let Some(answer) = send_probe(policy, admin).await? else {
                    return Ok(Progress::Done(()));
                };
                let called = lock(&self.shared.served)
                    .iter()
                    .any(|served| served.policy == id);
                Ok(Progress::when(called == wanted, (), answer))
            },
        )
        .await
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.handle.shutdown();
        self.server.abort();
    }
}

impl Shared {
    /// The policy with this id, and its settings.
    fn policy(&self, id: &str) -> Option<(PolicyModule, Value)> {
        if id == self.module.id() {
            return Some((self.module.clone(), lock(&self.settings).clone()));
        }
        lock(&self.others)
            .iter()
            .find(|(module, _)| module.id() == id)
            .cloned()
    }
}

async fn validate(
    State(shared): State<Arc<Shared>>,
    Path(policy): Path<String>,
    review: Result<Json<ReviewRequest>, JsonRejection>,
) -> Response {
    let Some((module, settings)) = shared.policy(&policy) else {
        return refuse(StatusCode::NOT_FOUND, &format!("unknown policy: {policy}"));
    };
    let Json(review) = match review {
        Ok(review) => review,
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    let Ok(worker) = shared.workers.clone().acquire_owned().await else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "shutting down");
    };
    // The worker is busy until the guest returns, whether or not the API server still waits.
    let evaluated = tokio::task::spawn_blocking(move || {
        let _worker = worker;
        let started = Instant::now();
        let mut evaluation = module.evaluate_request(&review.request, &settings, &shared.host);
        evaluation.took = started.elapsed();
        let response = evaluation.response.clone();
        let own = Option::unwrap_or_default;
        lock(&shared.served).push(Served {
            policy,
            kind: review.request.kind.kind,
            namespace: own(review.request.namespace),
            name: own(review.request.name),
            operation: review.request.operation,
            evaluation,
        });
        response
    });
    match evaluated.await {
        Ok(response) => Json(ReviewResponse::from(response)).into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (
        status,
        Json(json!({"message": message, "status": status.as_u16()})),
    )
        .into_response()
}

pub(in crate::kubewarden) fn tls(certificate: &ServerCertificate) -> Result<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(
        certificate.certificate.as_bytes(),
    )?];
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| anyhow!(error))
        .context("the webhook's certificate")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A `ClusterAdmissionPolicy` with what a module's metadata ask for.
fn policy_of(module: &PolicyModule, timeout_seconds: u8) -> Result<Policy> {
    let metadata = module.metadata();
    let name = module
        .id()
        .strip_prefix("clusterwide-")
        .context("not the id of a cluster-wide policy")?;
    Ok(Policy::new(json!({"metadata": {"name": name}, "spec": {
        "module": "file:///policy.wasm",
        "rules": metadata.rules,
        "mutating": metadata.mutating,
        "contextAwareResources": metadata.context_aware_resources,
        "failurePolicy": "Fail",
        "timeoutSeconds": timeout_seconds,
        "namespaceSelector": {"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", sidecar::NAMESPACE]}]},
    }})))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
