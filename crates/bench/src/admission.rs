//! One admission: of a Pod that can have no state, of one without a PPS, and of one whose state is
//! recorded, by the number of recorded Pods. Our policy asks the API server; OpenKruise's webhook
//! server has its informer in the process.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use pps_e2e::cluster::POLICY_SERVER;
use pps_e2e::control_plane::ControlPlane;
use pps_e2e::kubewarden::policy_server::{self, PolicyServer};
use pps_e2e::kubewarden::stand_in::{PolicyModule, Webhook};
use pps_e2e::kubewarden::{Policy, ReviewClient};
use pps_e2e::manifests;
use pps_e2e::repository::{policy_path, repository_file};
use procfs::process::Process;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::bed::{Bed, CANARY};
use crate::layout::{Layout, node_name};
use crate::meter::{cpu, median};
use crate::recorder::{Product, Recorder};
use crate::report::{Unit, count};

/// The sizes have turns, so that a busy moment hits all alike.
const ROUNDS: usize = 5;
const CALLS: usize = 200;
/// How long a recorder may take until all sizes are complete, counted from its first record. What
/// is not complete then counts as impossible.
const LIMIT: Duration = Duration::from_mins(1);

/// Takes a figure: the title of the Pod's case, what the figure is, its unit and its value.
type Add<'a> = &'a mut dyn FnMut(&str, &str, Unit, f64);

/// Whose admission is measured.
#[derive(Clone, Copy)]
enum Subject {
    /// A Pod without a controller. In a cluster it is not sent to the policy; here the policy
    /// accepts it without asking the API server.
    WithoutState(Layout),
    /// A Pod of a StatefulSet without a PPS.
    WithoutPps(Layout),
    /// A Pod of a StatefulSet whose Pods are all recorded.
    Recorded(Layout),
}

impl Subject {
    fn title(self) -> String {
        match self {
            Self::WithoutState(_) => "no controller".to_owned(),
            Self::WithoutPps(_) => "no PPS".to_owned(),
            Self::Recorded(layout) => format!("{} recorded", count(layout.pods)),
        }
    }

    /// The number of the Pod that is admitted at this call.
    fn pod(self, call: usize) -> usize {
        match self {
            Self::WithoutState(layout) | Self::WithoutPps(layout) | Self::Recorded(layout) => {
                call * 7 % layout.pods
            }
        }
    }

    fn request(self, call: usize) -> Value {
        match self {
            Self::WithoutState(layout) => {
                let mut request = layout.request(self.pod(call));
                request["object"]["metadata"]["ownerReferences"] = json!([]);
                request
            }
            Self::WithoutPps(layout) | Self::Recorded(layout) => layout.request(self.pod(call)),
        }
    }

    /// Fails unless the answer admits the Pod and, if its state is recorded, sends it to its node.
    fn check(self, call: usize, response: &Value) -> Result<()> {
        ensure!(
            response["allowed"] == true,
            "the Pod is refused: {response}"
        );
        if let Self::Recorded(_) = self {
            check_patch(response, &node_name(self.pod(call)))?;
        }
        Ok(())
    }
}

/// Has the product's own recorder record StatefulSets of these sizes, and its own webhook admit
/// their Pods.
pub(crate) async fn measure(
    bed: &mut Bed,
    product: Product,
    sizes: &[usize],
    add: Add<'_>,
) -> Result<()> {
    eprintln!("  admissions");
    let namespaces = ["size-0", "size-1", "size-2", "size-3"];
    let layouts: Vec<Layout> = sizes
        .iter()
        .zip(namespaces)
        .map(|(&pods, namespace)| Layout::new(namespace, 1, pods))
        .collect();
    // Its StatefulSet is stored, too: OpenKruise's webhook asks the API server for one that it does
    // not know.
    let without_pps = Layout::new("without-pps", 1, 10).without_pps();
    let mut stored = layouts.clone();
    stored.push(without_pps);
    let records = bed.prepare(product, &stored).await?;
    let mut recorder = bed.start_recorder(product).await?;
    recorder.wait_until_ready().await?;
    if records.wait(CANARY, 1, LIMIT).await?.is_none() {
        return recorder.fail("nothing is recorded");
    }
    let deadline = Instant::now() + LIMIT;
    let mut recorded = Vec::new();
    for layout in layouts {
        let left = deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_secs(1));
        recorded.extend(
            records
                .wait(layout.namespace, layout.pods, left)
                .await?
                .map(|_| layout),
        );
    }
    recorder.settle().await?;
    let host = if product == Product::Ours {
        our_host(bed).await?
    } else {
        their_host(&recorder)?
    };
    bed.settle().await?;
    let mut subjects = vec![
        Subject::WithoutState(without_pps),
        Subject::WithoutPps(without_pps),
    ];
    subjects.extend(recorded.into_iter().map(Subject::Recorded));
    for _ in 0..ROUNDS {
        for subject in &subjects {
            measure_subject(bed, &host, *subject, add).await?;
        }
    }
    if let Server::PolicyServer(_) = host.server {
        bed.control_plane.stop("policy-server").await?;
    }
    recorder.stop().await
}

async fn measure_subject(bed: &Bed, host: &Host, subject: Subject, add: Add<'_>) -> Result<()> {
    let title = subject.title();
    let process = host.process.as_ref();
    let server = process.map(cpu).transpose()?;
    let api_server = bed.api_server_cpu()?;
    let mut times = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        let request = subject.request(call);
        let started = Instant::now();
        let response = host.client.ask_at(&host.path, &request).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        subject.check(call, &response)?;
    }
    times.sort_unstable_by(f64::total_cmp);
    add(&title, "p50", Unit::Milliseconds, median(&times));
    add(&title, "p99", Unit::Milliseconds, times[CALLS * 99 / 100]);
    if let Some((process, before)) = process.zip(server) {
        add(
            &title,
            "CPU of the webhook server",
            Unit::Milliseconds,
            each_call(cpu(process)? - before),
        );
    }
    add(
        &title,
        "CPU of the API server",
        Unit::Milliseconds,
        each_call(bed.api_server_cpu()? - api_server),
    );
    Ok(())
}

/// Milliseconds of one call.
fn each_call(seconds: f64) -> f64 {
    seconds * 1e3 / CALLS as f64
}

/// Fails unless the answer sends the Pod to its node.
fn check_patch(response: &Value, node: &str) -> Result<()> {
    let patch = response["patch"]
        .as_str()
        .with_context(|| format!("no patch in the answer: {response}"))?;
    let patch = String::from_utf8(BASE64_STANDARD.decode(patch)?)?;
    ensure!(
        patch.contains(&format!("\"{node}\"")),
        "the patch does not name {node}: {patch}"
    );
    Ok(())
}

/// What answers admission reviews.
struct Host {
    client: ReviewClient,
    path: String,
    /// The process whose CPU time is measured; none if it is this one.
    process: Option<Process>,
    server: Server,
}

/// Ends with the turn.
enum Server {
    Theirs,
    PolicyServer(#[expect(dead_code, reason = "ends when it is dropped")] PolicyServer),
    StandIn(#[expect(dead_code, reason = "ends when it is dropped")] Webhook),
}

fn their_host(recorder: &Recorder) -> Result<Host> {
    let authority = std::fs::read_to_string(recorder.certificates.join("ca-cert.pem"))?;
    Ok(Host {
        client: ReviewClient::new(
            &format!("https://127.0.0.1:{}", recorder.webhook_port),
            &authority,
        )?,
        path: "/mutate-pod".to_owned(),
        process: Some(Process::new(recorder.process.pid())?),
        server: Server::Theirs,
    })
}

/// Kubewarden's `PolicyServer` if `POLICY_SERVER` names it, else its stand-in in this process.
async fn our_host(bed: &Bed) -> Result<Host> {
    let mut objects = manifests::read(&repository_file(
        "deploy/base/cluster-admission-policy.yaml",
    ))?;
    let Some(mut object) = objects.drain(..).next() else {
        bail!("no policy to install")
    };
    let module = policy_path().canonicalize()?;
    object["spec"]["module"] = json!(format!("file://{}", module.display()));
    let policy = Policy::new(object);
    let path = format!("/validate/{}", policy.id());
    let kubeconfig = bed.control_plane.kubeconfig_for(POLICY_SERVER)?;
    if let Some(program) = policy_server::executable() {
        let server =
            PolicyServer::start(&bed.control_plane, program, &[policy], &kubeconfig, None)?;
        server.wait_ready(Duration::from_mins(1)).await?;
        return Ok(Host {
            client: ReviewClient::new(server.url(), server.authority())?,
            path,
            process: Some(Process::new(i32::try_from(server.pid()?)?)?),
            server: Server::PolicyServer(server),
        });
    }
    let module = PolicyModule::load_file(&module)?;
    let client = ControlPlane::client_of(&kubeconfig)?;
    let webhook = Webhook::start_installed(&Handle::current(), client, &module, vec![policy])?;
    Ok(Host {
        client: ReviewClient::new(webhook.url(), webhook.authority())?,
        path,
        process: None,
        server: Server::StandIn(webhook),
    })
}
